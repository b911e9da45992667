"""Chains on a real Slurm: several jobs, one after another, that are one run."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster, Options
from tests.cluster.client import JOBGEN
from tests.e2e.runs import Run, answer, submit, write
from tests.products import one_of_each
from tests.waiting import HANG, until

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900)]

PROGRAM = """\
here=$JOBGEN_RUN_DIR
echo "$SLURM_JOB_ID from step $(cat "$JOBGEN_CHECKPOINT_DIR/step" 2>/dev/null)" >>"$here/executed"
touch "$here/up.$JOBGEN_RESTART"
until [[ -e $here/end ]]; do
    if [[ -e $JOBGEN_STOP_FILE ]]; then
        mkdir -p "$JOBGEN_CHECKPOINT_DIR"
        echo "$((100 * JOBGEN_RESTART + 100))" >"$JOBGEN_CHECKPOINT_DIR/step"
        touch "$JOBGEN_STOPPED_FILE"
        exit 0
    fi
    sleep 0.1
done
exit "$(cat "$here/end")"
"""
"""It saves when it is asked to, and ends with the code that the test writes."""
CHECKPOINT = {"chain": 3, "grace": "1m"}
JOB: Mapping[str, Any] = {
    "run": PROGRAM,
    "nodes": 1,
    "procs_per_node": 1,
    "time": "2h",
    "launcher": "plain",
    "preflight": "off",
    "checkpoint": CHECKPOINT,
}


def start(cluster: Cluster, folder: Path, name: str, **keys: Any) -> Run:
    """A chain whose first job runs."""
    profile = cluster.profile(procs_per_node=1)
    run = submit(cluster, write(folder, {**JOB, "name": name, **keys}), profile)
    await_start(run, 0)
    return run


def await_start(run: Run, restart: int) -> None:
    until(lambda: (run.directory / f"up.{restart}").exists(), run.story)


def list_jobs(run: Run) -> list[str]:
    return [each["slurm_id"] for each in run.show()["chain"]]


def list_live(run: Run) -> list[str]:
    """The ids of its jobs that wait or run."""
    told = run.cluster.slurm("squeue", "-h", "-t", "PD,CF,R", "-o", "%i", check=False)
    return sorted({*told.split()} & {*list_jobs(run)})


def list_executed(run: Run) -> list[str]:
    return (run.directory / "executed").read_text().splitlines()


@pytest.mark.parametrize("sender", one_of_each(["jobgen", "slurmctld"], ["jobgen"]))
def test_a_chain_of_three_stops_is_killed_and_finishes(
    cluster: Cluster, tmp_path: Path, sender: str
) -> None:
    run = start(cluster, tmp_path, f"three-{sender}")
    first, second, third = list_jobs(run)
    assert run.show()["slurm_id"] == first
    if sender == "jobgen":
        assert run.jobgen("cancel", "--signal", "USR1").returncode == 0
    else:  # less than the grace is left: slurmctld looks every half a minute
        cluster.slurm("scontrol", "update", f"JobId={first}", "TimeLimit=1")
    await_start(run, 1)
    assert (run.show()["state"], run.show()["slurm_id"]) == ("RUNNING", second)
    assert f"chain: job 2 of 3; then: {third}" in run.jobgen("show").stdout
    cluster.slurm("scancel", second)
    await_start(run, 2)
    run.put("end", "0")
    assert run.wait() == 0, run.story()
    shown = run.show()
    assert (shown["state"], shown["restarts"], shown["slurm_id"]) == ("COMPLETED", 2, third)
    assert list_executed(run) == [
        f"{first} from step ",
        f"{second} from step 100",
        f"{third} from step 100",
    ]
    assert [path.name for path in (run.directory / "logs").glob("job-*")] == [f"job-{first}.out"]
    assert "the next job of the chain resumes" in run.jobgen("logs").stdout


@pytest.mark.exhaustive
def test_a_job_that_reaches_its_time_limit_is_resumed(cluster: Cluster, tmp_path: Path) -> None:
    program = PROGRAM.replace("$JOBGEN_STOP_FILE", "$JOBGEN_RUN_DIR/deaf")
    run = start(cluster, tmp_path, "limit", run=program)
    first, second, _ = list_jobs(run)
    cluster.slurm("scontrol", "update", f"JobId={first}", "TimeLimit=1")
    await_start(run, 1)
    assert cluster.job(first)["JobState"] == "TIMEOUT"
    run.put("end", "0")
    assert run.wait() == 0, run.story()
    assert (run.show()["state"], run.show()["slurm_id"]) == ("COMPLETED", second)


@pytest.mark.parametrize("code", [0, 3])
def test_a_chain_ends_with_its_program(cluster: Cluster, tmp_path: Path, code: int) -> None:
    run = start(cluster, tmp_path, f"ends{code}")
    jobs = list_jobs(run)
    run.put("end", str(code))
    assert run.wait() == (1 if code else 0), run.story()
    until(lambda: not list_live(run), run.story)
    assert [line.split()[0] for line in list_executed(run)] == [jobs[0]]
    shown = run.show()
    state = "FAILED" if code else "COMPLETED"
    assert (shown["state"], shown["exit"], shown["restarts"]) == (state, f"{code}:0", 0)
    assert f"not needed: {jobs[1]}, {jobs[2]}" in run.jobgen("show").stdout


def test_a_job_that_starts_after_the_end_runs_nothing(cluster: Cluster, tmp_path: Path) -> None:
    """As when Slurm did not answer scancel at the end of the run."""
    with cluster.replaced("scancel", "exit 1", "n1"):
        run = start(cluster, tmp_path, "late")
        jobs = list_jobs(run)
        run.put("end", "0")
        assert run.wait() == 0, run.story()
        for job in jobs:
            assert cluster.wait_state(job) == "COMPLETED"
    log = (run.directory / f"logs/job-{jobs[0]}.out").read_text()
    assert log.count("this run has ended with exit code 0: nothing to do") == 2
    assert len(list_executed(run)) == 1
    assert (run.show()["state"], run.show()["slurm_id"]) == ("COMPLETED", jobs[0])


def test_cancel_ends_all_jobs_of_a_chain(cluster: Cluster, tmp_path: Path) -> None:
    run = start(cluster, tmp_path, "cancelled")
    assert len(list_live(run)) == 3
    assert run.jobgen("cancel").returncode == 0
    assert run.show()["state"] == "CANCELLED"
    assert not list_live(run)
    assert len(list_executed(run)) == 1


def test_a_chain_without_its_next_job_ends_as_stopped(cluster: Cluster, tmp_path: Path) -> None:
    run = start(cluster, tmp_path, "alone")
    cluster.slurm("scancel", *list_jobs(run)[1:])
    assert run.jobgen("cancel", "--signal", "USR1").returncode == 0
    assert run.wait() == 1, run.story()
    shown = run.show()
    assert (shown["state"], shown["exit"]) == ("FAILED", "98:0")
    assert (
        shown["reason"] == "stopped by the pre-timeout signal, and no other job of the chain waits"
    )


ENFORCED = ("AccountingStorageEnforce=associations,limits",)


def test_a_job_of_a_chain_that_slurm_refuses_shortens_it(tmp_path: Path) -> None:
    with Cluster.up(Options(nodes=1, accounting=True, conf=ENFORCED)) as cluster:
        limit = "modify user tester where account=lab set MaxSubmitJobs=2"
        for words in ("add account lab", "add user tester account=lab", limit):
            done = cluster.run("login", ["sacctmgr", "-i", *words.split()], user="root")
            assert done.returncode == 0, done.stderr
        profile = str(cluster.profile(procs_per_node=1))
        job = write(tmp_path, {**JOB, "name": "short"})
        done = cluster.client.jobgen("submit", str(job), "-c", profile, "--json")
        assert "warning: job 3 of 3 is not queued: " in done.stderr
        data = answer(done)["job"]
        run = Run(cluster, data["id"], data["slurm_id"], Path(data["dir"]), data["token"])
        await_start(run, 0)
        assert "not queued: job 3 of 3: " in run.jobgen("show").stdout
        assert run.jobgen("cancel", "--signal", "USR1").returncode == 0
        await_start(run, 1)
        assert run.jobgen("cancel", "--signal", "USR1").returncode == 0
        assert run.wait() == 1, run.story()
        assert (run.show()["state"], run.show()["exit"]) == ("FAILED", "98:0")
        assert len(list_executed(run)) == 2


@pytest.mark.parametrize("path", ["submit/jobid", "submit/array.1"])
def test_a_client_that_dies_leaves_a_whole_chain(
    cluster: Cluster, tmp_path: Path, path: str
) -> None:
    """Another one, whose run database is empty, takes the run up."""
    name = f"dies{len(path)}"
    job = write(tmp_path, {**JOB, "name": name})
    profile = str(cluster.profile(procs_per_node=1))
    words = [*JOBGEN, "submit", str(job), "-c", profile, "-q"]
    client = subprocess.Popen(cluster.client.words(words), stdout=-3, stderr=-3)
    until(lambda: [*cluster.scratch.glob(f"{name}-????????/{path}")], path, pause=0.002)
    client.kill()
    client.wait(timeout=HANG)
    other = {"XDG_STATE_HOME": str(cluster.client.home / "recovered" / name)}
    (directory,) = cluster.scratch.glob(f"{name}-????????")
    found = cluster.client.jobgen("recover", "-c", profile, str(directory), "--json", env=other)
    assert found.returncode == 0, found.stderr

    def show() -> Any:
        return answer(cluster.client.jobgen("show", f"{name}-1", "--json", env=other))["job"]

    until(lambda: all(each["slurm_id"] for each in show()["chain"]), lambda: str(show()))
    until(lambda: (directory / "up.0").exists(), "the first start")
    ids = [each["slurm_id"] for each in show()["chain"]]
    assert len({*ids}) == 3
    listed = cluster.slurm("squeue", "-h", "-o", "%i %j").splitlines()
    assert sorted(row.split()[0] for row in listed if row.split()[1] == name) == sorted(ids)
    assert cluster.client.jobgen("cancel", f"{name}-1", env=other).returncode == 0
