"""Runs inside an allocation that exists, on a real Slurm: salloc's, or a batch job's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.cluster.hosts import Done
from tests.e2e.runs import Run, answer, write
from tests.products import one_of_each
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900)]

PROGRAM = """\
echo "rank $RANK of $WORLD_SIZE on $(hostname) with $SLURM_JOB_CPUS_PER_NODE"
touch "$JOBGEN_RUN_DIR/up.$RANK"
until [[ -e $JOBGEN_RUN_DIR/end ]]; do sleep 0.1; done
exit "$(cat "$JOBGEN_RUN_DIR/end")"
"""
JOB: Mapping[str, Any] = {
    "name": "inside",
    "run": PROGRAM,
    "nodes": 2,
    "procs_per_node": 2,
    "time": "1h",
    "launcher": "srun",
}


@pytest.fixture
def allocation(cluster: Cluster) -> Iterator[str]:
    """The id of an allocation of two nodes, as a person has it from salloc."""
    words = ["salloc", "--no-shell", "--nodes=2", "--exclusive", "--time=1:00:00"]
    said = cluster.run("login", words).stderr
    job = said.partition("Granted job allocation ")[2].split()[0]
    yield job
    cluster.slurm("scancel", job)
    cluster.wait_state(job)


def call(cluster: Cluster, folder: Path, job: str, *words: str, **keys: Any) -> Done:
    """``jobgen submit --in JOB``."""
    path = write(folder, {**JOB, **keys})
    profile = str(cluster.profile())
    return cluster.client.jobgen("submit", str(path), "-c", profile, "--in", job, *words)


def start(cluster: Cluster, folder: Path, job: str, **keys: Any) -> Run:
    """A run inside an allocation whose ranks are up."""
    data = answer(call(cluster, folder, job, "--json", **keys))["job"]
    run = Run(cluster, data["id"], data["slurm_id"], Path(data["dir"]), data["token"])
    until(lambda: len([*run.directory.glob("up.*")]) == 4, run.story)
    return run


def list_steps(cluster: Cluster, job: str) -> list[str]:
    """The steps of an allocation, without its batch step."""
    told = cluster.slurm("squeue", "--steps", "-h", f"--jobs={job}", "-o", "%i", check=False)
    return [step for step in told.split() if step.partition(".")[2].isdecimal()]


@pytest.mark.parametrize("code", one_of_each([0, 3], [0]))
def test_a_run_inside_an_allocation_ends_without_it(
    cluster: Cluster, allocation: str, tmp_path: Path, code: int
) -> None:
    run = start(cluster, tmp_path, allocation)
    shown = run.show()
    assert (shown["state"], shown["slurm_id"], shown["nodes"]) == ("RUNNING", allocation, "n[1-2]")
    assert run.jobgen("sh", "--rank", "2", "--", "hostname").stdout.split() == ["n2"]
    run.put("end", str(code))
    assert run.wait() == (1 if code else 0), run.story()
    shown = run.show()
    assert (shown["state"], shown["exit"]) == ("FAILED" if code else "COMPLETED", f"{code}:0")
    logs = run.jobgen("logs", "--rank", "3").stdout
    assert "rank 3 of 4 on n2 with 64(x2)" in logs
    until(lambda: not list_steps(cluster, allocation), "the end of its steps")
    assert cluster.state(allocation) == "RUNNING"


def test_cancel_ends_the_run_and_not_the_allocation(
    cluster: Cluster, allocation: str, tmp_path: Path
) -> None:
    deaf = f"trap '' TERM\n{PROGRAM}"
    run = start(cluster, tmp_path, allocation, run=deaf)
    other = call(cluster, tmp_path, allocation)
    assert other.returncode == 6
    assert f"another run of jobgen is inside job {allocation}" in other.stderr
    refused = run.jobgen("cancel", "--signal", "USR1")
    assert refused.returncode == 1
    assert "a signal would reach all its processes" in refused.stderr
    hinted = run.jobgen("sh", "--", "sh", "-c", 'touch "$JOBGEN_STOP_FILE"')
    assert hinted.returncode == 0, hinted.stderr
    assert (run.directory / "state/0/stop").exists()
    assert run.jobgen("cancel").returncode == 0, run.story()
    assert run.show()["state"] == "CANCELLED"
    until(lambda: not list_steps(cluster, allocation), "the end of its steps")
    until(lambda: not cluster.processes_with_env(run.token), "the end of its ranks")
    assert cluster.state(allocation) == "RUNNING"


def test_a_batch_job_that_is_cancelled_ends_the_run_inside_it(
    cluster: Cluster, tmp_path: Path
) -> None:
    script = "#!/bin/bash\nsleep 3600\n"
    job = cluster.sbatch(script, "--nodes=2", "--exclusive", "--output=/dev/null")
    cluster.wait_state(job, "RUNNING")
    run = start(cluster, tmp_path, job)
    cluster.slurm("scancel", job)
    assert run.wait() == 1, run.story()
    shown = run.show()
    assert (shown["state"], shown["exit"]) == ("FAILED", "143:0")
    assert shown["reason"] == "ended by the time limit, scancel or preemption"


def test_an_allocation_that_does_not_fit_is_refused_before_anything_is_sent(
    cluster: Cluster, allocation: str, tmp_path: Path
) -> None:
    before = {*cluster.scratch.glob("inside-*")}
    wrong = {
        "999999": "testbed has no job 999999",
        allocation: f"requests 3 nodes; job {allocation} has 2",
    }
    for job, message in wrong.items():
        done = call(cluster, tmp_path, job, nodes=3)
        assert done.returncode != 0
        assert message in done.stderr
    script = "#!/bin/bash\nsleep 600\n"
    narrow = cluster.sbatch(script, "--nodes=2", "--ntasks=2", "--output=/dev/null")
    cluster.wait_state(narrow, "RUNNING")
    done = call(cluster, tmp_path, narrow)
    assert f"requests 2 CPUs per node; job {narrow} has 1" in done.stderr
    cluster.slurm("scancel", narrow)
    theirs = cluster.run("login", ["sbatch", "--parsable", "--wrap=sleep 60"], user="root", cwd="/")
    done = call(cluster, tmp_path, theirs.stdout.strip())
    assert "belongs to root, not to tester" in done.stderr
    cluster.slurm("scancel", theirs.stdout.strip())
    waits = cluster.sbatch("#!/bin/bash\ntrue\n", "--hold", "--output=/dev/null")
    done = call(cluster, tmp_path, waits)
    assert f"job {waits} is PENDING, not RUNNING" in done.stderr
    cluster.slurm("scancel", waits)
    assert {*cluster.scratch.glob("inside-*")} == before


def test_a_run_inside_an_allocation_is_recovered(
    cluster: Cluster, allocation: str, tmp_path: Path
) -> None:
    run = start(cluster, tmp_path, allocation)
    other = {"XDG_STATE_HOME": str(cluster.client.home / "recovered" / "inside")}
    profile = str(cluster.profile())
    client = cluster.client
    found = client.jobgen("recover", "-c", profile, str(run.directory), "--json", env=other)
    assert found.returncode == 0, found.stderr
    shown = answer(client.jobgen("show", run.id, "--json", env=other))["job"]
    assert (shown["state"], shown["slurm_id"]) == ("RUNNING", allocation)
    assert client.jobgen("cancel", run.id, env=other).returncode == 0
    assert run.show()["state"] == "CANCELLED"
    assert cluster.state(allocation) == "RUNNING"
