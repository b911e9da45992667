"""One job file, unchanged: on this machine, on the test cluster, for every shipped cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.cluster.layout import REPOSITORY
from tests.e2e.runs import DIGITS, Run, answer, submit

PROFILES = sorted(p.stem for p in (REPOSITORY / "clusters").glob("*.yaml"))


@pytest.mark.cluster
@pytest.mark.train("torch", "sklearn")
def test_the_example_runs_on_a_real_cluster_as_it_stands(
    cluster_accounting: Cluster, tmp_path: Path
) -> None:
    cluster = cluster_accounting
    run: Run = submit(cluster, DIGITS / "job.yaml")
    followed = run.jobgen("logs", "-f")
    assert "test accuracy" in followed.stdout, followed.stderr
    assert run.wait() == 0, run.story()
    listed = answer(cluster.client.jobgen("ls", "--json"))
    states = {row["id"]: row["state"] for row in listed}
    assert states[run.id] == "COMPLETED"


@pytest.mark.cluster
@pytest.mark.parametrize("name", PROFILES)
def test_it_renders_for_every_shipped_cluster(cluster: Cluster, name: str) -> None:
    done = cluster.client.jobgen("render", str(DIGITS / "job.yaml"), "-c", name)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("#!/bin/bash\n")
