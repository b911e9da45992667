"""A person who submits to a full cluster is told when Slurm expects the job to start, and one whose
account has too little left, what it has."""

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


def submit_on_terminal(cluster: Cluster, job: Path, **profile: object) -> str:
    """What a person sees."""
    words = [*JOBGEN, "submit", str(job), "-c", str(cluster.profile(**profile)), "-y"]
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


def test_an_account_with_too_little_left_is_shown(
    cluster_accounting: Cluster, tmp_path: Path
) -> None:
    cluster = cluster_accounting
    for words in (
        "add account lab",
        "add account nlp parent=lab",
        "add user tester account=nlp",
        "modify account lab set GrpTRESMins=gres/gpu=600",
        "modify user tester where account=nlp set GrpTRES=gres/gpu=2",
    ):
        done = cluster.run("login", ["sacctmgr", "-i", *words.split()], user="root")
        assert done.returncode == 0, done.stdout + done.stderr
    gpus = {"gpus_per_node": 8, "gpu": "A100-SXM4-80GB"}
    profile = {"procs_per_node": None, "nodes": gpus}
    job = {"name": "big", "run": "true", "nodes": 2, "launcher": "plain", "preflight": "off"}
    small = write(tmp_path, {**job, "gpus_per_node": 1, "time": "1h"})
    assert "limit:" not in submit_on_terminal(cluster, small, **profile)
    big = write(tmp_path, {**job, "gpus_per_node": 2, "time": "3h"})
    shown = submit_on_terminal(cluster, big, **profile)
    assert "limit: tester in account nlp uses 0 of 2 GPUs at a time; this job needs 4" in shown
    assert "       account lab has 10 of 10 GPU-hours left; this job may use 12" in shown
