"""A training that is submitted again as it was has the losses of the first one, bit for bit."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.examples.test_digits import EXAMPLE, RANK_A_NODE, User

pytestmark = [pytest.mark.slow, pytest.mark.train("torch", "sklearn")]
LOSS = re.compile(r"^epoch +(\d+)  loss (0x[0-9a-fp.+-]+)", re.MULTILINE)


def read_losses(run: Path) -> list[tuple[str, str]]:
    return LOSS.findall("".join(p.read_text() for p in sorted(run.glob("logs/0/0/local*.out"))))


def test_a_reproduced_training_has_equal_losses(tmp_path: Path) -> None:
    folder = tmp_path / "example"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    program = folder / "train.py"
    program.write_text(program.read_text().replace("{loss:.4f}", "{loss.hex()}"))
    home = tmp_path / "home"
    home.mkdir()
    user = User(home)
    words = ("-c", "local", "--set", "run=train.py --epochs 2 --seed 7", "--set", "time=2h")
    # torchrun's agents would import torch as well
    words += (*RANK_A_NODE, "--set", "launcher=srun")
    user.jobgen("submit", str(folder / "job.yaml"), *words, "--wait")
    first = user.run_directory
    # the folder of the first run has another program now
    program.write_text(program.read_text().replace("3e-3", "1e-2"))
    user.jobgen("reproduce", "digits-1", "--wait")
    (second,) = (p for p in user.runs.iterdir() if (p / "TOKEN").exists() and p != first)
    losses = read_losses(first)
    assert len(losses) == 2
    assert read_losses(second) == losses
    shown = user.jobgen("show", "digits-2", "-v")
    assert re.search(r"versions +torch \d", shown), shown
