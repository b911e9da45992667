"""What the command line shows of a job with several programs."""

from __future__ import annotations

import json
from pathlib import Path

from jobgen.cli.screens.plan_summary import HEIGHT
from tests.cli.conftest import Jobgen

JOB = """\
name: two
nodes: 2
time: 10m
procs_per_node: 2
before: ./prepare
steps: [{name: train, run: train.py}, {name: eval, run: eval.py, nodes: 1, launcher: srun}]
finally: ./copy
"""


def write(folder: Path) -> None:
    (folder / "job.yaml").write_text(JOB)
    for name in ("train.py", "eval.py"):
        (folder / name).write_text("print('x')\n")


def test_a_plan_lists_what_runs_in_order(jobgen: Jobgen, tmp_path: Path) -> None:
    write(tmp_path)
    shown = jobgen("plan", "job.yaml", "-c", "local")
    rows = [line.strip() for line in shown.out.split("Steps ")[1].split("\n")[:4]]
    assert rows == [
        "before: ./prepare",
        "train: 4 ranks on 2 nodes, torchrun",
        "eval: 2 ranks on 1 node, srun",
        "finally: ./copy",
    ]
    data = json.loads(jobgen("plan", "job.yaml", "-c", "local", "--json").out)["data"]
    assert [step["name"] for step in data["steps"]] == [
        "before",
        "train: launch",
        "train: program",
        "eval: launch",
        "eval: program",
        "finally",
    ]


def test_a_plan_names_the_rounds_and_a_dry_run_their_steps(jobgen: Jobgen, tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "job.yaml").write_text(JOB + "repeat: 3\n")
    shown = jobgen("plan", "job.yaml", "-c", "local").out
    rows = [line.strip() for line in shown.split("Steps ")[1].split("\n")[:3]]
    assert rows == ["before: ./prepare", "3 rounds of", "train: 4 ranks on 2 nodes, torchrun"]


def test_many_steps_fit_a_screen(jobgen: Jobgen, tmp_path: Path) -> None:
    write(tmp_path)
    text = JOB.replace("{name: train, run: train.py}", ", ".join(["{run: train.py}"] * 15))
    (tmp_path / "job.yaml").write_text(text)
    shown = jobgen("plan", "job.yaml", "-c", "local").out
    assert "and 10 more: --section steps" in shown
    assert len(shown.splitlines()) <= HEIGHT
