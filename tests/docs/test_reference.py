"""The reference says what the program does today."""

import subprocess
import sys
from pathlib import Path

from jobgen.cli.main import VERBS
from jobgen.data import codes

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"


def test_every_page_is_as_the_program_is() -> None:
    done = subprocess.run(
        [sys.executable, "docs/generate.py", "--check"],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"run python docs/generate.py; old pages:\n{done.stdout}"


def test_every_verb_and_every_code_has_its_place() -> None:
    commands = (REFERENCE / "commands.md").read_text()
    assert all(f"## jobgen {verb}\n" in commands for verb in VERBS)
    explained = (REFERENCE / "codes.md").read_text()
    assert all(f"## {code}: " in explained for code in codes())
