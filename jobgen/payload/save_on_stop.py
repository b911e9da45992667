"""save_on_stop.py PROGRAM.py [WORD...], or -m MODULE [WORD...]: run a program that uses
transformers' Trainer or Lightning, save when the job is asked to stop, and resume after a requeue.

The program is unchanged. When it imports its framework, each training gets one more callback, which
checks for $JOBGEN_STOP_FILE between steps, saves a checkpoint of the framework, creates
$JOBGEN_STOPPED_FILE and ends the program. It runs under the program's Python, 3.8 or later.
"""

from __future__ import annotations

import functools
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

# a __pycache__ beside it would be a change of bundle/, after which no start is allowed
kept, sys.dont_write_bytecode = sys.dont_write_bytecode, True
from wrapped_program import become  # type: ignore[import-not-found]  # noqa: E402

sys.dont_write_bytecode = kept

EVERY = 5.0
"""Seconds between two questions to all ranks: each is a small all-reduce."""
RESTARTED = os.environ.get("JOBGEN_RESTART", "0") != "0"


class Stop:
    """Whether to stop, decided by all ranks together."""

    def __init__(self) -> None:
        self.file = Path(os.environ["JOBGEN_STOP_FILE"])
        self.asked_at = (-1, 0.0)
        """The step of the last question, and its time."""
        self.next = 0
        self.signaled = False

    def listen(self) -> None:
        """Take SIGTERM as a request, unless the program handles it or torchrun restarts ranks."""
        restarts = os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")
        if restarts == "0" and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, lambda *_: setattr(self, "signaled", True))

    def is_asked(self, step: int, device: Any) -> bool:
        """Whether any rank was asked to stop. Ranks agree on the step, not on clocks and files."""
        last, when = self.asked_at
        if last <= step < self.next:
            return False
        now = time.monotonic()
        self.asked_at = (step, now)
        known = 0 <= last < step
        pace = (now - when) / (step - last) if known else EVERY
        seen = float(self.signaled or self.file.exists())
        seen, pace = self._most((seen, pace), device)
        self.next = step + max(1, min(1000, int(EVERY / max(pace, 1e-6))))
        return seen > 0

    def _most(self, values: tuple[float, float], device: Any) -> tuple[float, float]:
        import torch
        from torch import distributed

        if not (distributed.is_available() and distributed.is_initialized()):
            return values
        most = torch.tensor(values, device=device)
        distributed.all_reduce(most, op=distributed.ReduceOp.MAX)
        seen, pace = most.tolist()
        return seen, pace

    def end(self, what: str, *, first: bool) -> None:
        """Report the checkpoint, and end with 0 before the program goes on to what follows."""
        if first:
            print(f"jobgen: saved {what}, stopping", file=sys.stderr, flush=True)
            self.file.touch()
            Path(os.environ["JOBGEN_STOPPED_FILE"]).touch()
        raise SystemExit(0)


STOP = Stop()


def extend_transformers(module: Any) -> None:
    """Add the callback to ``Trainer.train``, which resumes a requeued job."""

    class SaveInTransformers(module.TrainerCallback):  # type: ignore[misc]
        stopping = False

        def on_train_begin(self, *_: Any, **__: Any) -> None:
            STOP.listen()

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.stopping = STOP.is_asked(state.global_step, args.device)
            if self.stopping:
                control.should_save = control.should_training_stop = True
                control.should_evaluate = False

        def on_save(self, args: Any, state: Any, *_: Any, **__: Any) -> None:
            if self.stopping:
                what = f"{args.output_dir}/checkpoint-{state.global_step}"
                STOP.end(what, first=state.is_world_process_zero)

    train = module.Trainer.train

    @functools.wraps(train)
    def resuming(self: Any, resume_from_checkpoint: Any = None, *words: Any, **options: Any) -> Any:
        self.add_callback(SaveInTransformers())
        last = find_last(self.args.output_dir) if RESTARTED else None
        if last:
            print(f"jobgen: resuming from {last}", file=sys.stderr, flush=True)
        return train(self, last or resume_from_checkpoint, *words, **options)

    module.Trainer.train = resuming


def find_last(folder: str) -> str | None:
    """The Trainer's last whole checkpoint: its state is what it writes last."""
    states = Path(folder).glob("checkpoint-*/trainer_state.json")
    return _find_highest(path.parent for path in states if path.stat().st_size)


def _find_highest(paths: Iterable[Path]) -> str | None:
    """Of paths that end with a step's number the one with the highest."""
    steps = {}
    for path in paths:
        number = re.fullmatch(r"(?:checkpoint-|hpc_ckpt_)(\d+)(?:\.ckpt)?", path.name)
        if number:
            steps[int(number[1])] = str(path)
    return steps[max(steps)] if steps else None


def extend_lightning(module: Any) -> None:
    """Add the callback to ``Trainer.fit``, which resumes a requeued job from Lightning's "hpc"."""

    class SaveInLightning(module.Callback):  # type: ignore[misc]
        step = -1

        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            # after the last micro-batch of a step only
            if trainer.global_step == self.step:
                return
            self.step = trainer.global_step
            if not STOP.is_asked(self.step, trainer.strategy.root_device):
                return
            for logger in trainer.loggers:
                logger.finalize("finished")
            path = f"{trainer.default_root_dir}/hpc_ckpt_{self.step}.ckpt"
            trainer.save_checkpoint(path)
            if trainer.is_global_zero:
                Path(f"{path}.whole").touch()
            STOP.end(path, first=trainer.is_global_zero)

    fit = module.Trainer.fit

    @functools.wraps(fit)
    def resuming(self: Any, *words: Any, **options: Any) -> Any:
        self.callbacks.append(SaveInLightning())
        last = find_hpc(self.default_root_dir) if RESTARTED else None
        if last and len(words) < 4:
            print(f"jobgen: resuming from {last}", file=sys.stderr, flush=True)
            options["ckpt_path"] = last
        return fit(self, *words, **options)

    module.Trainer.fit = resuming


def find_hpc(folder: str) -> str | None:
    """The last such checkpoint that is whole; some are folders, which ranks write together."""
    return _find_highest(path.with_suffix("") for path in Path(folder).glob("hpc_ckpt_*.whole"))


EXTENDED: dict[str, Callable[[Any], None]] = {
    "transformers.trainer": extend_transformers,
    "lightning.pytorch.trainer.trainer": extend_lightning,
    "pytorch_lightning.trainer.trainer": extend_lightning,
}
"""Module → what is done with it, right after the program has imported it."""


if __name__ == "__main__":
    become(EXTENDED)
