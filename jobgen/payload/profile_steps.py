"""profile_steps.py PROGRAM.py [WORD...], or -m MODULE [WORD...]: run a program of torch, and write
a trace of some of its steps, which chrome://tracing, Perfetto and TensorBoard show.

The program is unchanged. A step ends where the first optimizer that steps has done so, or
DeepSpeed's engine. $JOBGEN_PROFILE_STEPS is FIRST-LAST, counted from 1; $JOBGEN_PROFILE_RANKS
lists ranks. It runs under the program's Python, 3.8 or later.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

# a __pycache__ beside it would be a change of bundle/, after which no start is allowed
kept, sys.dont_write_bytecode = sys.dont_write_bytecode, True
from wrapped_program import become  # type: ignore[import-not-found]  # noqa: E402

sys.dont_write_bytecode = kept

FIRST, LAST = (int(word) for word in os.environ["JOBGEN_PROFILE_STEPS"].split("-"))
RANKS = os.environ["JOBGEN_PROFILE_RANKS"].split(",")
RANK = os.environ.get("RANK", "0")
WARM = 1 if FIRST > 2 else 0
"""Steps before the first with the profiler on, whose start would be counted in the first."""


class Steps:
    """Counts the steps, and traces those that are asked for."""

    def __init__(self) -> None:
        self.done = 0
        self.owner: Any = None
        """Whose steps are counted: the first that takes one."""
        self.profiler: Any = None

    def end(self, owner: Any) -> None:
        """One step of this optimizer or engine has ended."""
        if self.owner is None:
            self.owner = owner
        if owner is not self.owner or self.done >= LAST:
            return
        self.done += 1
        if self.done == FIRST - 1 - WARM:
            self.profiler = _start()
        elif self.profiler is not None:
            self.profiler.step()
        if self.done == LAST and self.profiler is not None:
            self.profiler.stop()
            self.profiler = None

    def end_program(self) -> None:
        """Say so where the program has ended before the last of the steps."""
        if self.done < LAST:
            print(
                f"jobgen: no trace of steps {FIRST}-{LAST}: the program took {self.done}",
                file=sys.stderr,
            )


def _start() -> Any:
    from torch import profiler

    asked = profiler.schedule(wait=0, warmup=WARM, active=LAST - FIRST + 1, repeat=1)
    found = profiler.profile(schedule=asked, on_trace_ready=_write)
    found.start()
    return found


def _write(found: Any) -> None:
    """The trace, which gets its name when it is whole."""
    folder = Path(os.environ["JOBGEN_RUN_DIR"]) / "profile"
    folder.mkdir(exist_ok=True)
    again = os.environ.get("JOBGEN_RESTART", "0")
    restart = "" if again == "0" else f".restart-{again}"
    path = folder / f"rank{RANK}.steps-{FIRST}-{LAST}{restart}.json.gz"
    part = path.with_name(f"part-{path.name}")
    found.export_chrome_trace(str(part))
    part.replace(path)
    print(f"jobgen: wrote the trace of steps {FIRST}-{LAST} to {path}", file=sys.stderr, flush=True)


STEPS = Steps()


def extend_optimizers(module: Any) -> None:
    """Count the steps of torch's optimizers, of which all others are made."""
    hook = getattr(module, "register_optimizer_step_post_hook", None)
    if hook is None:
        print("jobgen: no trace: torch before 2.1 has no hook for steps", file=sys.stderr)
        return
    hook(lambda optimizer, *_: STEPS.end(optimizer))


def extend_deepspeed(module: Any) -> None:
    """Count DeepSpeed's own steps: ZeRO-3 calls its optimizer many times in one of them."""
    step: Callable[..., Any] = module.DeepSpeedEngine._take_model_step

    @functools.wraps(step)
    def counted(self: Any, *words: Any, **options: Any) -> Any:
        STEPS.owner = self
        found = step(self, *words, **options)
        STEPS.end(self)
        return found

    module.DeepSpeedEngine._take_model_step = counted


if __name__ == "__main__":
    extended = {
        "torch.optim.optimizer": extend_optimizers,
        "deepspeed.runtime.engine": extend_deepspeed,
    }
    wanted = RANK in RANKS
    if wanted:
        atexit.register(STEPS.end_program)
    become(extended if wanted else {})
