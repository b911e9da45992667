"""Newer releases of Slurm: a job is submitted, followed, cancelled and requeued on each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster, Options, releases
from tests.e2e.runs import Run, submit, write
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.exhaustive]

PLAIN: dict[str, Any] = {"name": "other", "nodes": 2, "time": "1h", "procs_per_node": 2}


@pytest.fixture(scope="module", params=releases.SUITES)
def other(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster of another release."""
    if reason := releases.missing():
        pytest.skip(f"the test cluster: {reason}")
    tree = releases.make_tree(releases.SUITES[request.param])
    with Cluster.up(Options(nodes=2, usr=str(tree / "usr"))) as cluster:
        told = cluster.slurm("sbatch", "--version")
        assert request.param in told, "the suite has another release by now"
        yield cluster


def started(cluster: Cluster, folder: Path, run: str, **keys: Any) -> Run:
    folder.mkdir()
    return submit(cluster, write(folder, {**PLAIN, "run": run, **keys}))


def test_it_runs_and_its_logs_come(other: Cluster, tmp_path: Path) -> None:
    run = started(other, tmp_path / "job", 'echo "rank $RANK of $WORLD_SIZE"', launcher="srun")
    assert run.wait() == 0, run.story()
    shown = run.show()
    assert (shown["state"], shown["slurm_id"]) == ("COMPLETED", run.job)
    logs = run.jobgen("logs")
    assert all(f"rank {rank} of 4" in logs.stdout for rank in range(4)), (logs, run.story())


def test_the_failing_rank_is_named(other: Cluster, tmp_path: Path) -> None:
    run = started(other, tmp_path / "job", 'exit "$((RANK == 3 ? 7 : 0))"', launcher="srun")
    assert run.wait() == 1
    assert run.show()["exit"] == "7:0", run.story()
    assert "rank 3" in run.jobgen("show").stdout


def test_it_is_cancelled(other: Cluster, tmp_path: Path) -> None:
    run = started(other, tmp_path / "job", "touch up.$RANK; sleep 3600", launcher="srun")
    until(lambda: len([*(run.directory / "src").glob("up.*")]) == 4, run.story)
    assert run.jobgen("cancel").returncode == 0
    assert run.wait() == 1
    assert run.show()["state"] == "CANCELLED"
    until(lambda: not other.processes_with_env(run.token), "the end of every rank")


def test_it_is_requeued_and_goes_on(other: Cluster, tmp_path: Path) -> None:
    program = 'touch "up.$JOBGEN_RESTART"\nwhile [ "$JOBGEN_RESTART" = 0 ]; do sleep 0.2; done'
    keys = {"launcher": "plain", "checkpoint": {"requeue": True, "dir": "ckpt"}}
    one = {"nodes": 1, "procs_per_node": 1}
    run = started(other, tmp_path / "job", program, **keys, **one)
    until(lambda: (run.directory / "src" / "up.0").exists(), run.story)
    other.slurm("scontrol", "requeue", run.job)
    until(lambda: other.job(run.job).get("Restarts") == "1", run.story)
    if other.state(run.job) == "PENDING":
        other.start_now(run.job)
    assert run.wait() == 0, run.story()
    assert run.show()["restarts"] == 1
