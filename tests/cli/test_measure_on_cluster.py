"""`jobgen plan --measure --on-cluster`: real jobs on this machine measure a model, or explain why
not."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jobgen.cli import measuring_dialog
from tests.cli.conftest import ROOT, Jobgen, home_of
from tests.cluster.texts import FOLDER_OF_PYTHON
from tests.waiting import HANG, until

ACTIVATE = f"export PATH={Path(sys.executable).parent}:$PATH"
PROGRAM = """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x.mean()

def build_model(): return Net()
def example_batch(micro_batch): return torch.randn(micro_batch, 8)
"""
CALL = ("plan", "job.yaml", "-c", "local", "--measure", "--on-cluster")


def write(folder: Path, program: str = PROGRAM, **keys: Any) -> None:
    """A job of four ranks that trains a model of the program's own in fp32."""
    (folder / "train.py").write_text(program)
    train = {"model": "train.py:build_model", "batch": "train.py:example_batch"}
    train |= {"precision": "fp32", "framework": "none", "strategy": "fsdp2", "micro_batch": 4}
    base = {"name": "own", "nodes": 2, "procs_per_node": 2, "time": "1h", "run": "train.py"}
    data = {**base, "setup": ACTIVATE, "train": train, **keys}
    lines = (f"{key}: {json.dumps(value)}\n" for key, value in data.items() if value is not None)
    (folder / "job.yaml").write_text("".join(lines))


@pytest.mark.slow
def test_a_model_is_measured_where_the_job_has_its_torch(jobgen: Jobgen, tmp_path: Path) -> None:
    write(tmp_path)
    measured = jobgen(*CALL)
    assert measured.code == 0, measured.err
    assert "measuring train.py:build_model by a job on local" in measured.err
    assert "measure-1: COMPLETED" in measured.err
    on_gpus = ("-c", "a100x16", "--set", "procs_per_node=null", "--set", "gpus_per_node=8")
    later = json.loads(jobgen("plan", *on_gpus, "--json").out)["data"]["estimate"]["measured_model"]
    assert (later["params"], later["micro_batch"]) == (3 * 72, 4)
    assert later["sharded_step"]["ranks"] == 4
    assert (later["node"], later["cluster"]) == ("local1", "local")
    shown = " ".join(jobgen("plan", *on_gpus, "--section", "memory").out.split())
    assert f"with torch {later['torch']} on local1 of local" in shown
    (tmp_path / "train.py").write_text(f"{PROGRAM}\n")
    assert "train.py has changed since" in " ".join(jobgen("plan", *on_gpus).out.split())


FAILURES = {
    "import": (
        "import missing_here\n",
        ACTIVATE,
        3,
        "train.py:1:1: error[J264]: importing train.py",
    ),
    "setup": (PROGRAM, "echo no module >&2; exit 3", 1, "FAILED, exit code 3: no module"),
    "python": (PROGRAM, "python() { return 127; }; export -f python", 1, "FAILED, exit code 127"),
    "torch": (PROGRAM, f"python() {{ {sys.executable} -S $@; }}", 1, "torch cannot be imported"),
}
"""What is wrong → program, setup, exit code and words."""


@pytest.mark.slow
@pytest.mark.parametrize("wrong", FAILURES)
def test_a_failure_is_explained(jobgen: Jobgen, tmp_path: Path, wrong: str) -> None:
    program, setup, code, words = FAILURES[wrong]
    write(tmp_path, program, setup=f"{setup}; export -f python" if wrong == "torch" else setup)
    said = jobgen(*CALL)
    assert said.code == code, said.err
    message = " ".join(said.err.split())
    assert words in message
    assert "in setup (job.yaml:6), or set `container`" in message
    assert not [*home_of(tmp_path).rglob("measured/*")]


def test_a_dry_run_shows_the_job_and_sends_nothing(jobgen: Jobgen, tmp_path: Path) -> None:
    write(tmp_path)
    said = jobgen(*CALL, "--dry-run", "--set", "setup=module load torch", "--set", "workdir=.")
    assert said.code == 0, said.err
    assert "#SBATCH --time=00:15:00" in said.out
    assert 'python -m measure_model measure-0.json "$JOBGEN_STATE_DIR/measured-0.json"' in said.out
    assert re.search(r"#SBATCH --time=00:15:00 +# plan --measure\n", said.out)
    *command, measure, on_cluster = said.out.splitlines()[-1].removeprefix("Next: ").split(" ")
    assert (command[:5], measure, on_cluster) == (["jobgen", *CALL[:4]], *CALL[4:])
    script = jobgen(*CALL, "--dry-run", "-v", "--set", "setup=module load torch").out
    assert "module load torch" in script
    data = json.loads(jobgen(*CALL, "--dry-run", "--json").out)["data"]
    assert (data["dry_run"], data["name"]) == (True, "measure")
    assert jobgen("ls").out.startswith("No jobs yet")


def test_options_that_need_each_other(jobgen: Jobgen, tmp_path: Path) -> None:
    write(tmp_path)
    for words, hint in (
        (("--on-cluster",), "add --measure"),
        (("--measure", "--dry-run"), "submit --dry"),
    ):
        said = jobgen("plan", "-c", "local", *words)
        assert said.code == 2
        assert hint in said.err


@pytest.mark.slow
def test_ctrl_c_cancels_the_job(jobgen: Jobgen, tmp_path: Path) -> None:
    write(tmp_path, setup="touch begun; sleep 1000")
    command = [sys.executable, "-m", "jobgen", *CALL]
    child = subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{FOLDER_OF_PYTHON}"},
        stderr=subprocess.PIPE,
        text=True,
    )
    until(lambda: [*home_of(tmp_path).rglob("begun")], "the job to run")
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=HANG)
    assert child.returncode == 130, said
    assert "measure-1 is CANCELLED" in said
    assert "CANCELLED" in jobgen("ls", "-a").out


@pytest.mark.slow
def test_a_job_that_does_not_start_is_cancelled(
    jobgen: Jobgen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, nodes=8, procs_per_node=1, launcher="plain", run="sleep 1000")
    assert jobgen("submit", "-c", "local").code == 0
    monkeypatch.setattr(measuring_dialog, "PATIENCE", 0.1)
    said = jobgen(*CALL)
    jobgen("cancel", "own-1")
    assert said.code == 124, said.err
    message = " ".join(said.err.split())
    assert "measure-1 is PENDING (" in message
    assert "and was cancelled" in message
    assert "--set slurm.partition=NAME" in message
    assert "measure-1 is CANCELLED" in message
