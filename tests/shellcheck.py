"""The shellcheck that came with the development packages, else the machine's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest


def shellcheck() -> str:
    """Its path; the test is skipped where there is none."""
    places = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    program = shutil.which("shellcheck", path=places)
    if program is None:
        pytest.skip("shellcheck is not installed: pip install '.[dev]' brings it")
    return program


@cache
def complaints(script: bytes, *words: str) -> str:
    """What bash or ShellCheck says of a script; most are the same in many jobs."""
    done = subprocess.run(words, input=script, capture_output=True)
    return (done.stdout + done.stderr).decode()
