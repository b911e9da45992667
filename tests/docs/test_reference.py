"""The reference says what the program does today."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from jobgen.cli.main import VERBS
from jobgen.data.message_codes import codes

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"


def test_every_page_is_as_the_program_is() -> None:
    words = [sys.executable, "scripts/reference", "--check"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_verb_and_every_code_has_its_place() -> None:
    commands = (REFERENCE / "commands.md").read_text(encoding="utf-8")
    assert all(f"## jobgen {verb}" in commands for verb in VERBS)
    explained = (REFERENCE / "codes.md").read_text(encoding="utf-8")
    assert all(f"## {code}\n" in explained for code in codes())
