"""A run that races in several queues of a real Slurm: one job runs, the others are withdrawn."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster, Options
from tests.cluster.client import JOBGEN
from tests.e2e.runs import Run, answer, write
from tests.waiting import HANG, until

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900)]

RUN = """\
echo "$SLURM_JOB_ID $SLURM_JOB_PARTITION $JOBGEN_WORLD_SIZE" >>"$JOBGEN_RUN_DIR/executed"
until [[ -e $JOBGEN_RUN_DIR/end ]]; do sleep 0.1; done
"""
RACE = ("--race", "partition=gpu,short,debug")
LATER = {"begin": "now+1hour"}


@pytest.fixture(scope="module")
def course() -> Iterator[Cluster]:
    """A cluster whose controller may be killed."""
    with Cluster.up(Options(nodes=2, message_timeout=5)) as cluster:
        yield cluster


class Trial:
    """One race, named so that its run can be found by whoever did not submit it."""

    def __init__(self, cluster: Cluster, folder: Path, name: str, **slurm: str) -> None:
        self.cluster, self.name = cluster, name
        folder.mkdir(parents=True, exist_ok=True)
        job = {"name": name, "run": RUN, "nodes": 1, "procs_per_node": 1, "time": "20m"}
        more = {"launcher": "plain", "preflight": "off", "slurm": slurm or None}
        self.job = write(folder, {**job, **more})
        profile = str(cluster.profile(procs_per_node=1))
        self.words = ["jobgen", "submit", str(self.job), "-c", profile, "-q", *RACE]

    def submit(self) -> None:
        done = self.cluster.client.jobgen(*self.words[1:])
        assert done.returncode == 0, done.stderr

    def start_client(self) -> subprocess.Popen[bytes]:
        words = self.cluster.client.words([*JOBGEN, *self.words[1:]])
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    @property
    def directory(self) -> Path | None:
        return next(self.cluster.scratch.glob(f"{self.name}-????????"), None)

    def has(self, path: str) -> bool:
        """Whether the run directory holds this file or link."""
        return self.directory is not None and os.path.lexists(self.directory / path)

    def find(self) -> Run:
        """The run as later commands find it; it is submitted again if it never got that far."""
        jobs: list[Any] = []

        def has_job() -> bool:
            known = [job for job in self._list() if job["state"] != "REJECTED"]
            if not known:
                self.submit()
            shown = [self.cluster.client.jobgen("show", job["id"], "--json") for job in known]
            jobs[:] = [answer(done)["job"] for done in shown if done.returncode == 0]
            return any(job["slurm_id"] for job in jobs)

        until(has_job, lambda: f"a job of {self.name}: {jobs}")
        (data,) = jobs
        return Run(self.cluster, data["id"], data["slurm_id"], Path(data["dir"]), data["token"])

    def _list(self) -> list[Any]:
        jobs = answer(self.cluster.client.jobgen("ls", "--cached", "-a", "--json"))
        return [each for each in jobs if each["name"] == self.name]

    def list_live(self) -> list[str]:
        """Ids of its jobs that wait or run."""
        told = self.cluster.slurm("squeue", "-h", "-t", "PD,CF,R", "-o", "%i %j", check=False)
        rows = (line.split() for line in told.splitlines())
        return [row[0] for row in rows if row[-1] == self.name]

    def list_executed(self) -> list[str]:
        path = self.directory and self.directory / "executed"
        return path.read_text().splitlines() if path and path.exists() else []

    def list_withdrawn(self) -> list[str]:
        """The ids that the winner has tried to cancel, once for each try; "all" when it is done."""
        path = self.directory and self.directory / "state/0/withdrawn"
        return path.read_text().split() if path and path.exists() else []

    def judge(self, tries: int | None = 1) -> float:
        """Seconds until the losers were gone; the race has run exactly once, and has succeeded.

        Its winner has cancelled each loser with at most so many tries.
        """
        run = self.find()
        until(self.list_executed, f"a start: {run.story()}")
        begun = (run.directory / "state/0/claim").lstat().st_mtime
        until(lambda: len(self.list_live()) == 1, lambda: f"losers: {self.list_live()}")
        seconds = time.time() - begun
        (winner,) = self.list_live()
        until(lambda: "all" in self.list_withdrawn(), "the winner to be done")
        counts = Counter(self.list_withdrawn())
        assert tries is None or max(counts.values()) <= tries, counts
        (run.directory / "end").touch()
        assert run.wait() == 0, run.story()
        shown = run.show()
        assert (shown["state"], shown["slurm_id"]) == ("COMPLETED", winner)
        assert [each["won"] for each in shown["race"]].count(True) == 1
        assert not self.list_live()
        assert [line.split()[0] for line in self.list_executed()] == [winner]
        return seconds


def test_the_first_job_runs_and_withdraws_the_others(course: Cluster, tmp_path: Path) -> None:
    trial = Trial(course, tmp_path / "job", "early", **LATER)
    trial.submit()
    run = trial.find()
    shown = run.jobgen("show").stdout
    assert "race: the first to start runs: partition=gpu (" in shown
    ids = [each["slurm_id"] for each in run.show()["race"]]
    assert len(set(ids)) == 3
    assert set(trial.list_live()) == set(ids)
    trial.cluster.release(trial.name)
    trial.judge()
    shown = run.jobgen("show").stdout
    assert "started first; withdrawn: partition=" in shown, shown


def test_a_job_that_starts_at_once_leaves_no_other_behind(course: Cluster, tmp_path: Path) -> None:
    trial = Trial(course, tmp_path / "job", "idle")
    trial.submit()
    trial.judge()


def test_cancel_withdraws_all_and_a_refused_entry_is_named(course: Cluster, tmp_path: Path) -> None:
    trial = Trial(course, tmp_path / "job", "refused", **LATER)
    trial.words[-1] = "partition=gpu,none,short"
    done = course.client.jobgen(*trial.words[1:])
    assert done.returncode == 0, done.stderr
    assert "warning: partition=none is not queued: " in done.stderr
    run = trial.find()
    assert len(trial.list_live()) == 2
    assert "not queued: partition=none: " in run.jobgen("show").stdout
    recovered = course.client.home / "recovered"
    again = course.client.jobgen(
        *("recover", "-c", str(course.profile(procs_per_node=1)), "--json"),
        env={"XDG_STATE_HOME": str(recovered)},
    )
    assert again.returncode == 0, again.stderr
    assert (
        "not queued: partition=none: "
        in course.client.jobgen("show", run.id, env={"XDG_STATE_HOME": str(recovered)}).stdout
    )
    assert course.client.jobgen("cancel", run.id).returncode == 0
    assert run.show()["state"] == "CANCELLED"
    assert not trial.list_live()
    assert not trial.list_executed()


def test_the_next_entry_stands_in_for_a_first_one_that_is_refused(
    course: Cluster, tmp_path: Path
) -> None:
    trial = Trial(course, tmp_path / "job", "stand-in", **LATER)
    trial.words[-1:] = ["partition=none", "--race", "partition=gpu,time=30m"]
    trial.words += ["--race", "partition=short"]
    done = course.client.jobgen(*trial.words[1:])
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("is not queued") == 1
    assert "warning: partition=none is not queued: " in done.stderr
    first, *others = trial.find().show()["race"]
    assert first["slurm_id"] is None
    assert "Invalid partition name" in first["failure"]
    assert {each["slurm_id"] for each in others} == set(trial.list_live())
    assert len(others) == 2
    told = course.slurm("squeue", "-h", "-n", "stand-in", "-o", "%P %l")
    assert sorted(told.splitlines()) == ["gpu 30:00", "short 20:00"]
    trial.cluster.release(trial.name)
    trial.judge()


def test_a_race_that_nobody_takes_is_one_error_with_each_reason(
    course: Cluster, tmp_path: Path
) -> None:
    trial = Trial(course, tmp_path / "job", "nobody")
    trial.words[-1:] = ["partition=none", "--race", "partition=gpu,reservation=none"]
    done = course.client.jobgen(*trial.words[1:])
    assert done.returncode == 5, done.stderr
    assert done.stderr.count("rejected nobody") == 1
    assert "partition=none: sbatch: error: " in done.stderr
    assert "partition=gpu,reservation=none: sbatch: error: " in done.stderr
    assert not trial.directory


def test_all_entries_of_a_race_that_a_crash_lost_are_submitted_again(
    course: Cluster, tmp_path: Path
) -> None:
    trial = Trial(course, tmp_path / "job", "forgotten", **LATER)
    course.wait_idle()
    before = course.save_jobs()
    trial.submit()
    run = trial.find()
    assert len(trial.list_live()) == 3
    course.lose_jobs(before)
    assert not trial.list_live()
    until(lambda: {e["slurm_id"] for e in run.show()["race"]} == set(trial.list_live()), run.story)
    assert len(trial.list_live()) == 3
    assert run.show()["state"] == "PENDING"
    trial.cluster.release(trial.name)
    trial.judge()


def test_entries_of_a_race_that_a_crash_lost_are_submitted_again(
    course: Cluster, tmp_path: Path
) -> None:
    trial = Trial(course, tmp_path / "job", "partly", **LATER)
    with stopped_after_first(trial):
        saved = course.save_jobs()
    run = trial.find()
    until(lambda: run.show() and len(trial.list_live()) == 3, run.story)
    course.lose_jobs(saved)
    (first,) = trial.list_live()
    until(lambda: {e["slurm_id"] for e in run.show()["race"]} == set(trial.list_live()), run.story)
    assert len(trial.list_live()) == 3
    assert run.show()["race"][0]["slurm_id"] == first
    assert course.client.jobgen("cancel", run.id).returncode == 0
    assert not trial.list_live()


@contextmanager
def stopped_after_first(trial: Trial) -> Iterator[None]:
    """A submit whose client dies when the first entry of the race is accepted, and no other."""
    trial.cluster.freeze()
    client = trial.start_client()
    until(lambda: trial.has("submit/attempt.1"), "sbatch")
    assert trial.directory
    lock = trial.directory / "submit" / "arrays.lock"
    lock.symlink_to("elsewhere 1")
    trial.cluster.thaw()
    until(lambda: trial.has("submit/jobid"), "the first job")
    client.send_signal(signal.SIGKILL)
    client.communicate(timeout=HANG)
    yield
    assert len(trial.list_live()) == 1
    lock.unlink()


def test_the_shape_that_starts_first_is_that_of_the_run(course: Cluster, tmp_path: Path) -> None:
    blocker = course.sbatch("#!/bin/sh\nsleep 600\n", "-w", "n2", "--exclusive")
    until(lambda: course.job(blocker)["JobState"] == "RUNNING", "the other job")
    trial = Trial(course, tmp_path / "job", "small")
    trial.words[-1:] = ["nodes=2", "--race", "nodes=1"]
    trial.submit()
    trial.judge()
    assert [line.split()[2] for line in trial.list_executed()] == ["1"]
    run = trial.find()
    shown = run.show()
    assert shown["shape"]["nodes"] == 1
    assert [each["won"] for each in shown["race"]] == [False, True]
    text = run.jobgen("show").stdout
    assert "race: nodes=1 (" in text
    assert "bundle/race.1/job.sbatch" in text
    course.slurm("scancel", blocker)
    env = {"XDG_STATE_HOME": str(course.client.home / "recovered")}
    profile = str(course.profile(procs_per_node=1))
    again = course.client.jobgen("recover", "-c", profile, "--json", env=env)
    assert again.returncode == 0, again.stderr
    again = course.client.jobgen("show", run.id, "--json", env=env)
    assert answer(again)["job"]["shape"]["nodes"] == 1


def test_a_larger_shape_wins_if_the_smaller_one_waits(course: Cluster, tmp_path: Path) -> None:
    trial = Trial(course, tmp_path / "job", "large")
    trial.words[-1:] = ["nodes=1,partition=none", "--race", "nodes=1,partition=debug"]
    trial.words += ["--race", "nodes=2,partition=gpu"]
    course.slurm("scontrol", "update", "PartitionName=debug", "State=DOWN")
    try:
        trial.submit()
        run = trial.find()
        until(trial.list_executed, lambda: f"a start: {run.story()}")
        until(lambda: len(trial.list_live()) == 1, lambda: f"losers: {trial.list_live()}")
    finally:
        course.slurm("scontrol", "update", "PartitionName=debug", "State=UP")
    (run.directory / "end").touch()
    assert run.wait() == 0, run.story()
    (row,) = {tuple(line.split()) for line in trial.list_executed()}
    assert row[1:] == ("gpu", "2")
    shown = run.show()
    assert shown["slurm_id"] == row[0]
    assert (shown["shape"]["nodes"], shown["shape"]["ranks_per_node"]) == (2, 1)
    assert "bundle/race.2/job.sbatch" in run.jobgen("show").stdout


def kill_client(trial: Trial, dice: random.Random) -> float:
    """The client dies, at any moment of its submit."""
    client = trial.start_client()
    path = dice.choice(["TOKEN", "submit/attempt.1", "submit/jobid", "submit/array.1"])
    until(lambda: trial.has(path) or client.poll() is not None, path, pause=0.002)
    client.send_signal(signal.SIGKILL)
    client.communicate(timeout=HANG)
    return trial.judge()


def cut_connection(trial: Trial, dice: random.Random) -> float:
    """Nothing arrives any more from one moment of the submit on."""
    client = trial.start_client()
    path = dice.choice(["submit/attempt.1", "submit/jobid", "submit/array.1"])
    until(lambda: trial.has(path) or client.poll() is not None, path, pause=0.002)
    trial.cluster.cut("client")
    time.sleep(dice.random())
    client.send_signal(signal.SIGKILL)
    client.communicate(timeout=HANG)
    trial.cluster.restore("client")
    return trial.judge()


def restart_controller(trial: Trial, dice: random.Random) -> float:
    """The controller is away while the winner withdraws the others."""
    trial.submit()
    until(lambda: trial.has("state/0/claim"), "the claim", pause=0.002)
    trial.cluster.freeze()
    time.sleep(3 * dice.random())
    trial.cluster.thaw()
    return trial.judge(tries=None)


def crash_controller(trial: Trial, dice: random.Random) -> float:
    """The controller is killed when all jobs are saved, and comes back."""
    trial.submit()
    trial.cluster.save_jobs()
    trial.cluster.crash_controller()
    trial.cluster.restart_controller()
    trial.cluster.release(trial.name)
    return trial.judge(tries=None)


def fail_scancel(trial: Trial, dice: random.Random) -> float:
    """scancel fails on the nodes, and works again."""
    times = dice.randint(1, 3)
    with broken_scancel(trial.cluster, times):
        trial.submit()
        return trial.judge(tries=times + 1)


@contextmanager
def broken_scancel(cluster: Cluster, times: int) -> Iterator[None]:
    """The nodes' scancel fails so many times."""
    calls = cluster.scratch / "calls"
    calls.unlink(missing_ok=True)
    fails = f'echo >>{calls}\n[ "$(wc -l <{calls})" -gt {times} ] || exit 1\nexec $real "$@"'
    with cluster.replaced("scancel", fails, "n1", "n2"):
        yield
        assert calls.exists()


FAULTS = (kill_client, fail_scancel, restart_controller, cut_connection, crash_controller)
TRIALS = 50


@pytest.mark.parametrize(
    "number",
    [pytest.param(n, marks=[pytest.mark.exhaustive] if n > 2 else []) for n in range(TRIALS)],
)
def test_a_race_executes_once_whatever_fails(
    course: Cluster, tmp_path: Path, number: int, record_property: Callable[[str, object], None]
) -> None:
    dice = random.Random(number)  # noqa: S311 - weather, no secret
    fault = FAULTS[number % len(FAULTS)]
    delay = {"begin": f"now+{dice.randint(2, 6)}"} if dice.random() < 0.7 else {}
    if fault is crash_controller:
        # Slurm kills jobs whose start it had not saved
        delay = LATER
    trial = Trial(course, tmp_path / "job", f"race{number}", **delay)
    seconds = fault(trial, dice)
    record_property("seconds", seconds)
    print(f"{fault.__name__} {number}: {seconds:.1f} s")
