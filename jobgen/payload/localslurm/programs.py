"""Which program was meant, where its state lies, and how its errors are told."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from .errors import CommandError
from .store import Store

PROGRAMS = ("sbatch", "squeue", "scancel", "scontrol", "srun", "supervise")
USAGE = f"usage: localslurm [--state DIR] [--nodes N] {'|'.join(PROGRAMS)} WORDS..."


def main(words: Sequence[str]) -> int:
    """Run one of the programs and give its exit code."""
    rest = list(words)
    state = os.environ.get("JOBGEN_LOCAL_STATE", "")
    if rest[:1] == ["--state"]:
        state, rest = "".join(rest[1:2]), rest[2:]
    nodes = ""
    if rest[:1] == ["--nodes"]:
        nodes, rest = "".join(rest[1:2]), rest[2:]
    if not state or not rest or rest[0] not in PROGRAMS:
        print(USAGE, file=sys.stderr)
        return 2
    name = rest[0]
    try:
        run: Callable[[Store, Sequence[str]], int] = import_module(f".{name}", __package__).main
        return run(Store(Path(state).absolute(), int(nodes or 0)), rest[1:])
    except CommandError as refused:
        for line in refused.lines:
            print(line, file=sys.stderr)
        return refused.code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except OSError as error:
        print(f"{name}: error: {error.filename or state}: {error.strerror}", file=sys.stderr)
        return 1
