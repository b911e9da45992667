"""`jobgen plan --measure --on-cluster` on a real Slurm: on a node, and while the job waits."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import Cluster, Options
from tests.cluster.client import JOBGEN
from tests.cluster.layout import USER
from tests.e2e.runs import answer, write
from tests.waiting import HANG, until

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.train("torch")]

RULES = """\
    if job.tres_per_node == nil and job.tres_per_job == nil then
        slurm.log_user("jobs here need a GPU")
        return slurm.ERROR
    end
"""
"""A site's plug-in for a partition of GPUs, as some have it."""
PROGRAM = """\
import torch
from torch import nn

def build_model(): return nn.Linear(8, 8)
def example_batch(micro_batch): return torch.randn(micro_batch, 8)
"""


@pytest.fixture(scope="module")
def site() -> Iterator[Cluster]:
    """A cluster of one node that takes no job without a GPU."""
    with Cluster.up(Options(nodes=1, job_submit=RULES)) as running:
        yield running


@pytest.fixture
def words(site: Cluster, tmp_path: Path) -> tuple[str, ...]:
    """What measures the model of a job."""
    (tmp_path / "train.py").write_text(PROGRAM)
    train = {"model": "train.py:build_model", "batch": "train.py:example_batch"}
    train |= {"framework": "none", "strategy": "ddp", "precision": "fp32", "micro_batch": 4}
    size = {"nodes": 1, "gpus_per_node": 8, "time": "5m"}
    job = write(tmp_path, {"name": "own", "run": "train.py", **size, "train": train})
    nodes = {"gpus_per_node": 8, "gpu": "A100-SXM4-80GB", "cpus": 64}
    profile = site.profile(procs_per_node=None, nodes=nodes)
    return ("plan", str(job), "-c", str(profile), "--measure", "--on-cluster")


def test_a_node_measures_over_one_connection(site: Cluster, words: tuple[str, ...]) -> None:
    home = site.layout.home / USER
    (home / ".ssh").mkdir(exist_ok=True)
    (home / ".ssh" / "rc").write_text("echo >>~/sessions\n")  # sshd runs it at every login
    done = site.client.jobgen(*words, "--json")
    assert "jobs here need a GPU" in done.stderr
    assert "requesting a GPU" in done.stderr
    measured = answer(done)["estimate"]["measured_model"]
    assert (measured["params"], measured["node"], measured["cluster"]) == (72, "n1", "testbed")
    assert (home / "sessions").read_text() == "\n"
    rows = answer(site.client.jobgen("ls", "-a", "--json"))
    assert sorted(row["state"] for row in rows) == ["COMPLETED", "REJECTED"]
    later = answer(site.client.jobgen(*words[:4], "--json"))
    assert later["estimate"]["measured_model"] == measured


def test_ctrl_c_cancels_a_job_that_waits(site: Cluster, words: tuple[str, ...]) -> None:
    site.slurm("scontrol", "update", "PartitionName=gpu", "State=DOWN")
    try:
        command = site.client.words([*JOBGEN, *words, "-c", words[3]])
        child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

        def list_waiting() -> list[str]:
            return site.slurm("squeue", "-h", "-t", "PENDING", "-o", "%i").split()

        until(list_waiting, "the job to wait")
        (job,) = list_waiting()
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=HANG)
    finally:
        site.slurm("scontrol", "update", "PartitionName=gpu", "State=UP")
    assert child.returncode == 130, said
    assert site.state(job) == "CANCELLED", said
