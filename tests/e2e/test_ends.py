"""How jobs end on a real cluster: by a failing rank, by cancel, at the time limit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cluster import Cluster, Options
from tests.e2e.runs import LAUNCHERS, NOT_ASKED, Run, digits, hold, submit, write
from tests.products import one_of_each
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


PROGRAM = """\
import os, sys, time
from pathlib import Path
rank = os.environ["RANK"]
Path(f"up.{rank}").touch()
while rank != sys.argv[1] or not all(Path(f"up.{n}").exists() for n in range(4)):
    time.sleep(0.1)
sys.exit(f"rank {rank} fails")
"""


def waiting(folder: Path, fails: int | str = "none", **keys: object) -> Path:
    """A job whose ranks wait for ever, but for one that fails when all are there."""
    folder.mkdir()
    (folder / "main.py").write_text(PROGRAM)
    job = {"name": "waiting", "run": f"main.py {fails}", "nodes": 2, "time": "1h"}
    return write(folder, {**job, "procs_per_node": 2, "launcher": "srun", **keys})


@pytest.mark.train("torch", "deepspeed", "accelerate")
@pytest.mark.parametrize(
    "launcher", one_of_each(LAUNCHERS, ["torchrun c10d", "srun", "deepspeed pdsh"])
)
def test_a_failing_rank_fails_the_job_and_ends_the_others(
    cluster: Cluster, tmp_path: Path, launcher: str
) -> None:
    """The others wait for ever; the launcher or Slurm must end them."""
    run = submit(cluster, waiting(tmp_path / "job", fails=1, launcher=LAUNCHERS[launcher]))
    assert run.wait() == 1, run.story()
    assert run.show()["state"] == "FAILED", "it has not waited for its time limit"
    assert b"rank 1 fails" in run.ranks(stream="err")[1]
    until(lambda: not cluster.processes_with_env(run.token), "the end of every rank")


@pytest.mark.train("torch", "deepspeed", "accelerate")
@pytest.mark.parametrize("launcher", one_of_each(LAUNCHERS, ["torchrun c10d", "deepspeed pdsh"]))
def test_after_cancel_no_process_carries_the_token(
    cluster: Cluster, tmp_path: Path, launcher: str
) -> None:
    run = submit(cluster, waiting(tmp_path / "job", launcher=LAUNCHERS[launcher]))
    until(lambda: len([*(run.directory / "src").glob("up.*")]) == 4, run.story)
    hosts = {p.host for p in cluster.processes_with_env(run.token)}
    assert len(hosts) == 2, "ranks run on both nodes before"
    cancelled = run.jobgen("cancel")
    assert cancelled.returncode == 0, cancelled.stderr
    assert run.wait() == 1
    assert run.show()["state"] == "CANCELLED"
    until(lambda: not cluster.processes_with_env(run.token), "the end of every rank")


def test_a_job_that_waits_is_cancelled_before_it_starts(cluster: Cluster, tmp_path: Path) -> None:
    job = waiting(tmp_path / "job", slurm={"begin": "now+1hour"})
    run = submit(cluster, job)
    assert cluster.state(run.job) == "PENDING"
    assert run.jobgen("cancel").returncode == 0
    assert cluster.wait_state(run.job) == "CANCELLED"
    assert run.show()["state"] == "CANCELLED"
    assert run.ranks() == {}


def test_a_job_that_fills_the_disk_of_its_run_directory_fails_and_says_so(
    cluster: Cluster, tmp_path: Path
) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    fill = "cat /dev/zero >../filler\nexit 3"
    one = {"name": "fill", "run": fill, "nodes": 1, "time": "1h", "procs_per_node": 1}
    profile = cluster.profile(paths={"root": str(cluster.layout.small)})
    run = submit(cluster, write(folder, {**one, "launcher": "plain"}), profile)
    try:
        assert run.wait() == 1
        shown = run.show()
    finally:
        cluster.run("login", f"rm -rf {cluster.layout.small}/*")
    assert shown["state"] == "FAILED"
    assert "disk of the run directory is full" in shown["reason"]


@pytest.mark.train("torch")
def test_at_the_time_limit_it_saves_is_requeued_and_finishes(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The test brings the limit near once the job trains: Slurm warns it, with minutes left."""
    job = digits(
        tmp_path / "job",
        run="train.py --epochs 4",
        procs_per_node=1,
        launcher="srun",
        checkpoint={"signal": "USR1", "grace": "30m", "requeue": True, "dir": "ckpt"},
    )
    hold(job.with_name("train.py"), f"state.epoch >= 2 and {NOT_ASKED}")
    run = submit(cluster, job)
    until(lambda: "epoch  2" in words(run, 0), run.story)
    assert "asked to stop" not in words(run, 0)
    # less than the grace is left: slurmctld looks every half a minute
    cluster.slurm("scontrol", "update", f"JobId={run.job}", "TimeLimit=29")
    until(lambda: "asked to stop" in words(run, 0), run.story)
    until(lambda: cluster.job(run.job).get("Restarts") == "1", run.story)
    cluster.slurm("scontrol", "update", f"JobId={run.job}", "TimeLimit=120")
    assert cluster.wait_state(run.job, ("PENDING", "RUNNING")) in ("PENDING", "RUNNING")
    shown = run.show()
    assert shown["state"] in ("PENDING", "REQUEUED", "CONFIGURING", "RUNNING"), shown
    if cluster.state(run.job) == "PENDING":
        cluster.start_now(run.job)
    assert run.wait() == 0, run.story()
    saved = re.search(r"saved at epoch (\d+), step (\d+)", words(run, 0))
    resumed = re.search(r"going on from epoch (\d+), step (\d+)", words(run, 1))
    assert saved is not None
    assert resumed is not None
    assert resumed.groups() == saved.groups(), "it goes on where it stopped"
    epochs = re.findall(r"^epoch +(\d+)", words(run, 0) + words(run, 1), re.MULTILINE)
    assert epochs == [str(i) for i in range(1, 5)], "no epoch is lost, none is run twice"
    assert run.show()["restarts"] == 1


def words(run: Run, restart: int) -> str:
    """What rank 0 printed in one start of the job."""
    return run.ranks(restart).get(0, b"").decode()


FINAL = """import os, sys, time
rank = int(os.environ["RANK"])
print("up", rank, flush=True)
time.sleep(float(sys.argv[1]) if rank == 0 else 0)
print("saved", rank, flush=True)
"""
"""Rank 0 works on when the others have left, as one that writes the last checkpoint does."""


def last_checkpoint(cluster: Cluster, folder: Path, launcher: str, seconds: int) -> Run:
    """A job in which rank 0 takes this much longer than the others; its end is waited for."""
    folder.mkdir()
    (folder / "main.py").write_text(FINAL)
    job = {"name": "last", "run": f"main.py {seconds}", "nodes": 2, "time": "30m"}
    run = submit(cluster, write(folder, {**job, "procs_per_node": 2, "launcher": launcher}))
    until(lambda: run.ranks().get(0), "rank 0 to start", pause=1)
    assert run.wait() == 0, run.story()
    return run


def test_a_rank_that_works_longer_than_the_others_is_not_killed(tmp_path: Path) -> None:
    """The site's WaitTime would kill it two seconds after the others' end."""
    with Cluster.up(Options(nodes=2, conf=("WaitTime=2",))) as cluster:
        run = last_checkpoint(cluster, tmp_path / "job", "srun", 8)
        assert run.show()["state"] == "COMPLETED"
        assert run.ranks()[0] == b"up 0\nsaved 0\n"


@pytest.mark.exhaustive
@pytest.mark.train("torch")
def test_a_rank_that_works_longer_than_torchrun_waits_is_not_killed(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The other node's agent waits 300 s for it and leaves; srun's --wait counts from there."""
    run = last_checkpoint(cluster, tmp_path / "job", "torchrun", 400)
    assert run.show()["state"] == "COMPLETED"
    assert run.ranks()[0] == b"up 0\nsaved 0\n"
