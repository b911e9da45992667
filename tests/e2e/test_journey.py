"""A stranger's way: a folder with a program, a job file, a run, a failure, its cause.

Played in a shell on a terminal of 80 columns and 25 lines.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from tests.waiting import HANG

COLUMNS, ROWS = 80, 25
KEYS_A_MINUTE = 150
"""A slow typist."""
PROMPT = "jobgen-test> "
PROGRAM = """\
import torch.distributed as dist


def main():
    dist.init_process_group("gloo")
    print("rank", dist.get_rank(), "of", dist.get_world_size())
    dist.barrier()  # a rank that leaves early breaks connections that others still make
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
"""
"""As little as a program of several ranks can be: trainings are in the tutorial's test."""
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Shell:
    """bash on a terminal: what was typed, and what each command printed."""

    def __init__(self, folder: Path, home: Path) -> None:
        env = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(home),
            "TERM": "xterm",
            "LC_ALL": "C.UTF-8",
            "INPUTRC": os.devnull,
            "PS1": PROMPT,
        }
        self.keys = 0
        self.child = pexpect.spawn(
            *("bash", ["--norc", "--noprofile", "--noediting"]),
            cwd=folder,
            env=env,
            dimensions=(ROWS, COLUMNS),
            timeout=HANG,
            encoding="utf-8",
        )
        self.child.expect_exact(PROMPT)

    def type(self, command: str) -> list[str]:
        """The lines that a command printed; every question gets Enter."""
        self._send(command)
        text = ""
        while self.child.expect([re.escape(PROMPT), r"\]: $"]) == 1:
            text += self.child.before + self.child.after
            self._send("")
        lines = ESCAPES.sub("", text + self.child.before).replace("\r\n", "\n").split("\n")
        return [line.rsplit("\r", 1)[-1] for line in lines[1:-1]]

    def _send(self, line: str) -> None:
        self.keys += len(line) + 1
        self.child.sendline(line)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Shell]:
    """A shell in a folder that holds only a program."""
    folder, home = tmp_path / "project", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    (folder / "train.py").write_text(PROGRAM)
    shell = Shell(folder, home)
    yield shell
    shell.child.close(force=True)


def find_next(lines: list[str]) -> str:
    """The command that a screen ends with."""
    return re.sub(r"^(Next:|\s*error log)\s+", "", lines[-1])


@pytest.mark.train
@pytest.mark.slow
def test_a_stranger_gets_from_a_program_to_the_cause_of_a_failure(terminal: Shell) -> None:
    written = terminal.type("jobgen init")
    plan = terminal.type(find_next(written))
    submit = find_next(plan)
    ran = terminal.type(f"{submit} --follow")
    assert any("COMPLETED" in line for line in ran[-2:]), ran
    terminal.type("sed -i 's/^def main.*/&\\n    raise KeyError(\"labels\")/' train.py")
    failed = terminal.type(f"{submit} --follow")
    assert any("KeyError: 'labels'" in line for line in failed[-20:]), failed
    cause = terminal.type(find_next(failed))
    assert any("KeyError: 'labels'" in line for line in cause), cause
    verdict = failed[next(i for i, line in enumerate(failed) if "  FAILED after " in line) :]
    for screen in (written, plan, verdict, cause, terminal.type("jobgen show @last")):
        assert len(screen) <= ROWS, "\n".join(screen)
        own = [line for line in screen if not re.match(r"local\d+ r\d+ [!|] |Files in ", line)]
        assert all(len(line) <= COLUMNS for line in own), "\n".join(own)
    assert terminal.keys <= 3 * KEYS_A_MINUTE
