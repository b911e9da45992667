"""Calling the program in this process, with its streams kept apart.

Every command that it prints must be one, and is tried here where it needs neither a cluster nor a
run."""

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from jobgen.cli.main import run
from jobgen.errors import Exit
from tests.cluster.texts import FOLDER_OF_PYTHON
from tests.pasted import check_commands, list_offline
from tests.waiting import HANG

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Said:
    """What a call printed, and how it ended."""

    code: int
    out: str
    err: str


TRIED: set[str] = set()
"""The commands that were pasted, each where it was printed first."""
Jobgen = Callable[..., Said]


def home_of(folder: Path) -> Path:
    """The home of programs that run in this folder: beside it, since a home is not uploaded."""
    return folder.with_name(f"{folder.name}-home")


@pytest.fixture
def jobgen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Jobgen:
    """The program, called in an empty folder with an empty home."""
    monkeypatch.chdir(tmp_path)
    home_of(tmp_path).mkdir()
    monkeypatch.setenv("HOME", str(home_of(tmp_path)))
    for name in ("JOBGEN_CLUSTER", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def call(*words: str) -> Said:
        code = run(words)
        said = capsys.readouterr()
        check_commands(said.out + said.err)
        for command in list_offline(said.out + said.err) - TRIED:
            TRIED.add(command)
            ended, shown = run(shlex.split(command)), capsys.readouterr()
            refused = ended == Exit.USAGE and "no job.yaml in this folder" not in shown.err
            assert not refused, f"jobgen {command}: {shown.err}"
        return Said(int(code), said.out, said.err)

    return call


def process(*words: str, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """The program in a process of its own, without a terminal."""
    done = subprocess.run(
        [sys.executable, "-m", "jobgen", *words],
        cwd=cwd,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home_of(cwd)),
            "PYTHONPATH": f"{ROOT}:{FOLDER_OF_PYTHON}",
            **environ,
        },
        capture_output=True,
        text=True,
        timeout=HANG,
        stdin=subprocess.DEVNULL,
    )
    check_commands(done.stdout + done.stderr)
    return done
