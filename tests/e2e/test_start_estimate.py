"""A person who submits to a full cluster is told when Slurm expects the job to start."""

from __future__ import annotations

import re
from pathlib import Path

import pexpect
import pytest

from tests.cluster import Cluster
from tests.cluster.client import JOBGEN
from tests.e2e.runs import write
from tests.waiting import HANG

pytestmark = pytest.mark.cluster


def submit_on_terminal(cluster: Cluster, job: Path) -> str:
    """What a person sees."""
    words = [*JOBGEN, "submit", str(job), "-c", str(cluster.profile()), "-y"]
    program, *rest = cluster.client.words(words)
    terminal = pexpect.spawn(program, rest, encoding="utf-8", timeout=HANG, dimensions=(40, 200))
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 0, terminal.before
    return str(terminal.before)


def test_a_long_wait_is_shown_before_the_job_is_submitted(cluster: Cluster, tmp_path: Path) -> None:
    job = {"name": "late", "run": "true", "nodes": 4, "procs_per_node": 1, "time": "1h"}
    path = write(tmp_path, {**job, "launcher": "plain"})
    assert "Slurm expects" not in submit_on_terminal(cluster, path)
    words = ("--nodes=4", "--exclusive", "--time=3:00:00")
    blocker = cluster.sbatch("#!/bin/bash\nsleep 9000", *words)
    cluster.wait_state(blocker, "RUNNING")
    try:
        shown = submit_on_terminal(cluster, path)
    finally:
        cluster.slurm("scancel", "--user=tester")
    assert re.search(r"in about (2h\d\dm|3h00m)", shown), shown
    assert shown.index("Slurm expects") < shown.index("accepted")
