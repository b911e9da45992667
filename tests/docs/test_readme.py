"""The README is short, its picture shows its own commands, and its script does the job."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import ROOT, text

BY_HAND = ROOT / "examples" / "llama" / "by-hand.sbatch"


def test_the_readme_is_short() -> None:
    assert len(text("README.md").splitlines()) <= 130


def test_the_picture_shows_the_commands_of_its_script() -> None:
    done = subprocess.run([sys.executable, "scripts/picture", "--check"], cwd=ROOT)
    assert done.returncode == 0, "run scripts/picture"


def read_options(script: str) -> set[str]:
    """The options of sbatch in a script, without comments."""
    lines = re.findall(r"^#SBATCH (.+)$", script, re.MULTILINE)
    return {word for line in lines for word in shlex.split(line, comments=True)}


def split_words(command: str) -> list[str]:
    """The words of a command over several lines."""
    return shlex.split(command.replace("\\\n", " "))


def test_the_script_by_hand_does_what_the_rendered_job_does(tmp_path: Path) -> None:
    words = ["render", "examples/llama/job.yaml", "-c", "a100x16", "-o", str(tmp_path)]
    subprocess.run(
        [sys.executable, "-m", "jobgen", *words], cwd=ROOT, check=True, capture_output=True
    )
    by_hand = BY_HAND.read_text(encoding="utf-8")
    rendered = (tmp_path / "job.sbatch").read_text(encoding="utf-8")
    assert read_options(by_hand) <= read_options(rendered)
    program = (tmp_path / "program.sh").read_text(encoding="utf-8").split("exec ", 1)[1]
    given = program.replace("$JOBGEN_BUNDLE_DIR/", "")
    start = by_hand.index("train.py")
    assert split_words(by_hand[start:]) == split_words(given)[2:]
    for name in ("NCCL_NET", "NCCL_IB_HCA"):
        line = re.compile(rf"^export {name}=.*?(?= #|$)", re.MULTILINE)
        assert line.findall(by_hand) == line.findall(rendered)
