"""The shellcheck that came with the development packages, else the machine's own."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest


def shellcheck() -> str:
    """Its path; the test is skipped where there is none."""
    places = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    program = shutil.which("shellcheck", path=places)
    if program is None:
        pytest.skip("shellcheck is not installed: pip install '.[dev]' brings it")
    return program
