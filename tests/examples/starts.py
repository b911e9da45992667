"""Starts of the programs of examples/gpt that are cheap: ranks forked from a process that is warm.

To import torch, DeepSpeed and accelerate takes a rank ten times as long as a training of a few
steps. ``Warm`` is a process that has imported them and forks the ranks of each start; they are
processes of their own, which can be killed. Where one dies, the others are ended: so do torchrun,
and srun with ``--kill-on-bad-exit``. This file is the program of that process, too.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import importlib.util
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from tests.extensions import ENGINE_IMPORT, PATH, copy_extensions
from tests.ports import reserved_port
from tests.waiting import HANG

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "gpt"
NO_CACHE = {"PYTHONDONTWRITEBYTECODE": "1"}
"""For what imports an example where it lies: a job uploads its folder, ``__pycache__`` and all."""
NEEDS = {
    "train_ddp": (),
    "train_fsdp1": (),
    "train_fsdp2": (),
    "train_3d": (),
    "train_deepspeed": ("deepspeed",),
    "train_accelerate": ("deepspeed", "accelerate"),
}
"""Program → what it imports beside torch."""


class Start:
    """The ranks of one start, while they run and when they have ended."""

    def __init__(self, warm: Warm, folder: Path, pids: Sequence[int]) -> None:
        self.warm, self.folder, self.pids = warm, folder, pids
        self.handles = [os.pidfd_open(pid) for pid in pids]

    def kill(self, rank: int) -> None:
        """SIGKILL to one rank; nothing where it has ended."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.handles[rank], signal.SIGKILL)

    def ended(self, seconds: float = 0) -> bool:
        """Whether a rank has ended, if need be within so many seconds."""
        return bool(select.select(self.handles, [], [], seconds)[0])

    def wait(self) -> list[int]:
        """How each rank has ended: its exit code, or the signal's number below zero."""
        if not select.select([self.warm.out], [], [], HANG)[0]:
            self._end_hung()
            raise AssertionError(f"hung: {self.said()}")
        codes: list[int] = self.warm.answer()
        for handle in self.handles:
            os.close(handle)
        return codes

    def _end_hung(self) -> None:
        """Have each rank say where it is, and end it."""
        for handle in self.handles:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGUSR1)
        select.select([self.warm.out], [], [], 5)
        for rank in range(len(self.pids)):
            self.kill(rank)
        self.warm.answer()

    def text(self, rank: int) -> str:
        """What a rank has printed so far."""
        path = self.folder / f"{rank}.out"
        return path.read_text(errors="replace") if path.exists() else ""

    def said(self) -> str:
        """What all ranks have printed, for an error message."""
        return "\n".join(f"── rank {r}\n{self.text(r)[-3000:]}" for r in range(len(self.pids)))


class Warm:
    """The process that has all imported."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.extensions = Path(self._folder.name)
        if importlib.util.find_spec("deepspeed"):
            copy_extensions(self.extensions)
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("JOBGEN_", "ACCELERATE"))}
        clean |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PATH": PATH}
        self.process = subprocess.Popen(
            (sys.executable, "-W", "ignore", "-m", "tests.examples.starts"),
            cwd=ROOT,
            env={**clean, **NO_CACHE, "TORCH_EXTENSIONS_DIR": str(self.extensions)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.out = self.process.stdout

    def __enter__(self) -> Self:
        assert self.answer() == "warm"
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(HANG)
        self.out.close()
        self._folder.cleanup()

    def answer(self) -> Any:
        """The next line that the process says."""
        return json.loads(self.out.readline())

    def start(
        self,
        folder: Path,
        program: str,
        words: Sequence[str],
        env: Mapping[str, str],
        ranks: int = 2,
    ) -> Start:
        """Start a program; what its ranks print goes into files of the folder."""
        folder.mkdir(parents=True)
        assert self.process.stdin is not None
        order = (str(folder), program, [*words], {**env, "WORLD_SIZE": str(ranks)})
        print(json.dumps(order), file=self.process.stdin, flush=True)
        return Start(self, folder, self.answer())


def serve() -> None:
    """Import everything, then start what is asked for, one after the other."""
    sys.path.insert(0, str(EXAMPLE))
    out = os.dup(1)
    os.dup2(2, 1)  # libraries talk when they are imported
    for program, needs in NEEDS.items():
        if all(map(importlib.util.find_spec, needs)):
            __import__(program)
    if importlib.util.find_spec("deepspeed"):
        importlib.import_module(ENGINE_IMPORT)
    gc.freeze()  # else each rank's collector goes through, and so copies, all that was imported
    _say(out, "warm")
    for line in sys.stdin:
        folder, program, words, env = json.loads(line)
        with reserved_port() as port:
            env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            ranks = range(int(env["WORLD_SIZE"]))
            pids = [_fork(Path(folder), program, words, env, rank) for rank in ranks]
            _say(out, pids)
            _say(out, _ends(pids))


def _say(out: int, what: object) -> None:
    os.write(out, f"{json.dumps(what)}\n".encode())


def _ends(pids: Sequence[int]) -> list[int]:
    """Wait for all; the first that does not end well ends the others."""
    codes: dict[int, int] = {}
    while len(codes) < len(pids):
        pid, status = os.wait()
        codes[pid] = os.waitstatus_to_exitcode(status)
        if codes[pid]:
            for other in set(pids) - codes.keys():
                os.kill(other, signal.SIGKILL)
    return [codes[pid] for pid in pids]


def _fork(folder: Path, program: str, words: list[str], env: Mapping[str, str], rank: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        out = os.open(folder / f"{rank}.out", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(out, 1)
        os.dup2(out, 2)
        faulthandler.enable()  # and where it was when it crashed
        faulthandler.register(signal.SIGUSR1)  # says where a rank is that hangs
        os.environ.update(env, RANK=str(rank), LOCAL_RANK=str(rank))
        sys.argv = [program, *words]
        runpy.run_path(str(EXAMPLE / f"{program}.py"), run_name="__main__")
        code = 0
    except BaseException:  # noqa: BLE001 it must not come back into the loop of serve
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # engines leave threads


if __name__ == "__main__":
    serve()
    os._exit(0)  # to end in order takes some seconds
