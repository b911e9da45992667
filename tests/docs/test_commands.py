"""Every command of jobgen that a page shows, or that a screen on it prints, can be pasted."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import pytest

from tests.docs.pages import NAMES, ROOT, text
from tests.pasted import check_commands, list_offline

BLOCK = re.compile(r"^ *```(?:console|bash|sh)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
SCREEN = re.compile(r"^```console\n\$ .*?\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", [name for name in NAMES if BLOCK.search(text(name))])
def test_every_command_of_a_page_is_one(name: str) -> None:
    check_commands("".join(BLOCK.findall(text(name))))


@pytest.mark.slow
def test_what_screens_print_works_when_pasted() -> None:
    screens = (screen for name in NAMES for screen in SCREEN.findall(text(name)))
    commands = {command for screen in screens for command in list_offline(screen)}
    assert commands
    for command in commands:
        words = [sys.executable, "-m", "jobgen", *shlex.split(command)]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode in {0, 1, 6}, f"jobgen {command}: {done.stderr}"
