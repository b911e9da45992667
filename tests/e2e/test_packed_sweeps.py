"""Packed sweeps on a real Slurm: many elements in one job, each run to its end once."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster, Options
from tests.e2e.runs import Run, answer, submit, write
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(3600)]

PROGRAM = """\
import os, sys, time
from pathlib import Path
here, element = Path(os.environ["JOBGEN_RUN_DIR"]), os.environ["SLURM_ARRAY_TASK_ID"]
attempt, kind = os.environ["JOBGEN_RESTART"], os.environ["KIND"]
print(element, kind, os.environ["SLURM_GPUS_ON_NODE"] if "SLURM_GPUS_ON_NODE" in os.environ else "")
up = here / f".up.{element}.{attempt}"
up.write_text(f"{os.environ['SLURMD_NODENAME']} {os.getpid()}")
up.rename(here / f"up.{element}.{attempt}")
while kind not in ("well", "bad") and not (here / f"killed.{element}").exists():
    time.sleep(0.05)
if kind == "bad" and not Path("mended").exists():
    sys.exit(3)
(here / f"done.{element}.{attempt}").touch()
"""
KINDS = ("program", "worker", "shell", "step", "requeue")


def start_packed(cluster: Cluster, folder: Path, kinds: list[str]) -> Run:
    """A sweep on two nodes with two workers each."""
    folder.mkdir()
    (folder / "train.py").write_text(PROGRAM)
    return submit(cluster, write(folder, describe(kinds)))


def describe(kinds: list[str]) -> dict[str, Any]:
    """The job file."""
    return {
        "name": "packed",
        "run": "train.py",
        "nodes": 2,
        "procs_per_node": 2,
        "cpus_per_task": 1,
        "time": "1h",
        "launcher": "srun",
        "sweep": {"list": [{"KIND": kind} for kind in kinds], "pack": {"gpus": 1}},
    }


def find_attempt(run: Run, element: int) -> int:
    """The newest attempt of an element, once its program is up."""
    newest = 0

    def is_up() -> bool:
        nonlocal newest
        tries = list((run.directory / "state" / str(element)).glob("started.*"))
        newest = max((int(path.suffix[1:]) for path in tries), default=0)
        return (run.directory / f"up.{element}.{newest}").exists()

    until(is_up, lambda: f"element {element}: {run.story()}")
    return newest


def kill(cluster: Cluster, run: Run, element: int, kind: str) -> None:
    """Do to the element what its kind says, while its program runs."""
    attempt = find_attempt(run, element)
    node, pid = (run.directory / f"up.{element}.{attempt}").read_text().split()
    shell = (run.directory / f"state/{element}/started.{attempt}").readlink().name.partition(".")[2]
    if kind == "program":
        cluster.run(node, ["kill", "-9", pid], user="root")
    elif kind in ("worker", "shell"):
        host = cluster.job(run.job)["BatchHost"]
        parent = f"$(ps -o ppid= -p {shell})"
        victim = parent if kind == "worker" else shell
        cluster.run(host, ["sh", "-c", f"kill -9 {victim}"], user="root")
    elif kind == "step":
        steps = cluster.slurm("squeue", "-s", "-h", "-j", run.job, "-o", "%i %j").splitlines()
        (step,) = [line.split()[0] for line in steps if f" e{element}." in line]
        cluster.slurm("scancel", "--signal=KILL", step)
    else:
        cluster.slurm("scontrol", "requeue", run.job)
        cluster.start_now(run.job)
    (run.directory / f"killed.{element}").touch()
    # a requeue that comes before the end is recorded runs the element again
    until(lambda: list_ends(run, element), lambda: f"the end of {element}: {run.story()}")


def list_ends(run: Run, element: int) -> list[str]:
    """The attempts that ended the element."""
    exits = (run.directory / "state" / str(element)).glob("exit.*")
    return [path.read_text() for path in exits if "end=finished" in path.read_text()]


def count_successes(run: Run, element: int) -> int:
    """How often its program ran to its end; one that gets SIGTERM on its last line has not."""
    events = (run.directory / "state" / str(element) / "events").glob("*.0")
    texts = [path.read_text().partition(" kind=stopped ")[0] for path in events]
    return sum(text.count(" code=0 ") for text in texts)


def tell(run: Run, element: int) -> str:
    """All that is known of an element."""
    folder = run.directory / "state" / str(element)
    marks = [
        f"{p.name} {p.read_text() if p.is_file() else p.readlink()}"
        for p in folder.iterdir()
        if not p.is_dir()
    ]
    events = [f"{p.name}\n{p.read_text()}" for p in (folder / "events").glob("*")]
    ups = [p.name for p in run.directory.glob(f"*.{element}.*")]
    logs = [
        p.read_text()
        for p in (run.directory / "logs").glob(f"job-{run.job}*.out")
        if p.name.endswith((f"_{element}.out", f"{run.job}.out"))
    ]
    return "\n".join([*marks, *events, *ups, *logs])


def test_each_element_is_finished_once_whatever_is_killed(
    cluster: Cluster, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """With --faults 10: 200 elements and 20 kills."""
    times = pytestconfig.getoption("faults")
    count, kills = 20 * times, max(len(KINDS), 2 * times)
    kinds = [KINDS[i % len(KINDS)] if i < kills else "well" for i in range(count)]
    run = start_packed(cluster, tmp_path / "job", kinds)
    for element in range(kills):
        kill(cluster, run, element, kinds[element])
    assert run.wait() == 1, run.story()
    killed = [i for i, kind in enumerate(kinds) if kind in ("program", "step")]
    for element in range(count):
        ends = list_ends(run, element)
        done = count_successes(run, element)
        assert len(ends) == 1, tell(run, element)
        assert done == (element not in killed), tell(run, element)
        assert ends[0].startswith("rc=137" if element in killed else "rc=0"), tell(run, element)
    shown = run.show()
    assert shown["elements"] == {"COMPLETED": count - len(killed), "FAILED": len(killed)}


def test_a_preempted_packed_sweep_goes_on_and_ends_each_element_once(tmp_path: Path) -> None:
    """A job of a partition with a higher priority takes the nodes; Slurm requeues the sweep."""
    conf = (
        "PreemptType=preempt/partition_prio",
        "PreemptMode=REQUEUE",
        "PartitionName=urgent Nodes=n1,n2 PriorityTier=10 MaxTime=60 State=UP",
    )
    with Cluster.up(Options(nodes=2, conf=conf)) as cluster:
        run = start_packed(cluster, tmp_path / "job", ["well", "well", "wait", "wait", "well"])
        for element in (2, 3):
            find_attempt(run, element)
        urgent = cluster.sbatch(
            f"#!/bin/sh\nuntil [ -e {run.directory}/over ]; do sleep 0.1; done\n",
            *("--partition=urgent", "--nodes=2", "--exclusive"),
        )
        cluster.wait_state(urgent, "RUNNING")
        until(lambda: cluster.job(run.job)["JobState"] == "PENDING", "the sweep to be preempted")
        assert run.show()["state"] == "PENDING"
        for element in (2, 3):
            (run.directory / f"killed.{element}").touch()
        (run.directory / "over").touch()
        cluster.wait_state(urgent)
        cluster.start_now(run.job)
        assert run.wait() == 0, run.story()
        assert run.show()["elements"] == {"COMPLETED": 5}
        for element in range(5):
            assert len(list_ends(run, element)) == 1, tell(run, element)
            assert count_successes(run, element) == 1, tell(run, element)


def test_a_lost_node_costs_no_element(cluster: Cluster, tmp_path: Path) -> None:
    """Slurm requeues the job; what had finished has finished, the rest runs to its end."""
    run = start_packed(cluster, tmp_path / "job", ["well", "well", *["held"] * 5])
    nodes = {}
    for element in range(2, 6):
        attempt = find_attempt(run, element)
        nodes[element] = (run.directory / f"up.{element}.{attempt}").read_text().split()[0]
    lost = next(node for node in nodes.values() if node != cluster.job(run.job)["BatchHost"])
    cluster.signal(lost, "slurmd", signal.SIGKILL)
    assert cluster.kill_slurmstepd(lost, run.job)
    for process in cluster.processes_with_env(run.token):
        if process.host == lost:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
    cluster.slurm("scontrol", "update", f"NodeName={lost}", "State=DOWN", "Reason=lost")
    cluster.restart_slurmd(lost)
    # slurmd may have brought it back already
    cluster.slurm("scontrol", "update", f"NodeName={lost}", "State=RESUME", check=False)
    cluster.start_now(run.job)
    for element in range(2, 7):
        (run.directory / f"killed.{element}").touch()
    assert run.wait() == 0, run.story()
    for element in range(7):
        assert len(list_ends(run, element)) == 1, tell(run, element)
        assert count_successes(run, element) == 1, tell(run, element)
    assert run.show()["elements"] == {"COMPLETED": 7}


def test_the_files_run_by_hand(cluster: Cluster, tmp_path: Path) -> None:
    job = write(tmp_path, describe(["well", "bad", "well", "well", "well"]))
    (tmp_path / "train.py").write_text(PROGRAM)
    folder = cluster.scratch / "packed-by-hand"
    words = ("render", str(job), "-c", str(cluster.profile()), "--standalone", "-o", str(folder))
    made = cluster.client.jobgen(*words)
    assert made.returncode == 0, made.stderr
    (folder / "train.py").write_text(PROGRAM)
    cluster.run("login", ["chown", "-R", "tester", str(folder)], user="root")
    start = f"cd {folder} && mkdir -p logs && sbatch --parsable job.sbatch"
    number = cluster.run("login", start).stdout.strip()
    cluster.wait_state(number)
    log = (folder / "logs" / f"job-{number}_1.out").read_text()
    assert cluster.job(number)["ExitCode"] == "1:0", log
    assert "rank 0 on n" in log
    ends = {path.parent.name: path.read_text() for path in folder.glob(f"state/{number}/*/exit.0")}
    assert {element: end.split()[0] for element, end in ends.items()} == {
        **dict.fromkeys("0234", "rc=0"),
        "1": "rc=3",
    }


def test_one_bad_element_ends_no_other_and_runs_again(cluster: Cluster, tmp_path: Path) -> None:
    kinds = ["well", "bad", "well", "program", "well", "bad"]
    run = start_packed(cluster, tmp_path / "job", kinds)
    find_attempt(run, 3)
    until(
        lambda: run.show()["elements"] == {"COMPLETED": 3, "FAILED": 2, "RUNNING": 1},
        lambda: str(run.show()["elements"]),
    )
    assert run.show()["state"] == "RUNNING"
    (run.directory / "killed.3").touch()
    assert run.wait() == 1
    shown = run.jobgen("show").stdout
    assert "failed: [1,5]" in shown
    assert "[5] KIND=bad" in shown
    lines = cluster.client.jobgen("logs", f"{run.id}[1,3]", "--stdout", "--no-prefix").stdout
    assert {"1 bad ", "3 program "} <= {*lines.splitlines()}, lines
    assert cluster.client.jobgen("wait", f"{run.id}[0,2-4]").returncode == 0
    part = answer(cluster.client.jobgen("show", f"{run.id}[1,3]", "--json"))["job"]
    assert part["elements"] == {"COMPLETED": 1, "FAILED": 1}
    listed = cluster.client.jobgen("ls", "-v").stdout
    assert "[5]  KIND=bad" in listed
    (tmp_path / "job" / "mended").touch()
    again = cluster.client.jobgen("rerun", run.id, "--failed", "--wait")
    assert again.returncode == 0, again.stderr
    newest = max(run.directory.parent.glob("packed-*"), key=lambda path: path.stat().st_mtime)
    assert {path.name for path in newest.glob("done.*")} == {"done.1.0", "done.5.0"}


def test_elements_are_cancelled_one_by_one_and_all_at_once(
    cluster: Cluster, tmp_path: Path
) -> None:
    run = start_packed(cluster, tmp_path / "job", ["held"] * 8)
    for element in range(4):
        find_attempt(run, element)
    assert run.show()["elements"] == {"RUNNING": 4, "PENDING": 4}
    refused = cluster.client.jobgen("cancel", f"{run.id}[8]")
    assert refused.returncode == 2
    assert "has no element 8" in refused.stderr
    # one that runs, and one that no worker has taken
    answer(cluster.client.jobgen("cancel", f"{run.id}[1,5]", "--json"))
    find_attempt(run, 4)
    assert run.show()["elements"] == {"RUNNING": 4, "PENDING": 2, "CANCELLED": 2}
    assert list_ends(run, 1) == []
    answer(run.jobgen("cancel", "--json"))
    assert run.show()["elements"] == {"CANCELLED": 8}
    assert {path.name for path in run.directory.glob("up.*")} == {f"up.{i}.0" for i in range(5)}
