"""One job file, unchanged: on this machine, on the test cluster, for every shipped cluster."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.e2e.runs import DIGITS, Run, answer, submit

ACCURACY = re.compile(r"test accuracy ([\d.]+)%")
NONCE = re.compile(r"nonce ([0-9a-f]{32})")


@pytest.mark.cluster
@pytest.mark.train("torch", "sklearn")
def test_the_example_runs_on_a_real_cluster_as_it_stands(
    cluster_accounting: Cluster, tmp_path: Path
) -> None:
    cluster = cluster_accounting
    run: Run = submit(cluster, DIGITS / "job.yaml")
    followed = run.jobgen("logs", "-f")
    reached = ACCURACY.findall(followed.stdout)
    assert reached, followed.stderr
    assert float(reached[-1]) >= 96.0
    assert run.wait() == 0, run.story()
    printed = {nonce for out in run.ranks().values() for nonce in NONCE.findall(out.decode())}
    assert len(printed) == 4
    assert set(NONCE.findall(followed.stdout)) == printed, "every rank is heard"
    listed = answer(cluster.client.jobgen("ls", "--json"))
    states = {row["id"]: row["state"] for row in listed}
    assert states[run.id] == "COMPLETED"


@pytest.mark.cluster
def test_it_renders_for_a_shipped_cluster_where_there_is_no_slurm(cluster: Cluster) -> None:
    """For every shipped cluster: tests/test_promises.py."""
    done = cluster.client.jobgen("render", str(DIGITS / "job.yaml"), "-c", "a100x16")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("#!/bin/bash\n")
