"""Sweeps with more elements than one job array may have, on a real Slurm."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster, Options
from tests.cluster.client import JOBGEN
from tests.cluster.hosts import Done
from tests.e2e.runs import Run, answer, submit, write
from tests.waiting import HANG, until

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900)]

PROGRAM = """\
import os, sys, time
from pathlib import Path
from typing import Any
index, seed = os.environ["SLURM_ARRAY_TASK_ID"], int(os.environ["SEED"])
print(index, seed, os.environ["JOBGEN_CHECKPOINT_DIR"].rpartition("/")[2], flush=True)
end = Path(os.environ["JOBGEN_RUN_DIR"]) / f"end.{index}"
while seed == 108 and not (end.exists() or Path("mended").exists()):
    time.sleep(0.05)
sys.exit(3 if seed in (107, 112) and not Path("mended").exists() else 0)
"""


@pytest.fixture(scope="module")
def small_arrays() -> Iterator[Cluster]:
    """A cluster whose arrays have indexes below 6."""
    with Cluster.up(Options(nodes=2, accounting=True, conf=("MaxArraySize=6",))) as cluster:
        yield cluster


def start_sweep(cluster: Cluster, folder: Path, **keys: object) -> Run:
    return submit(cluster, make_sweep(folder, **keys))


def make_sweep(folder: Path, **keys: object) -> Path:
    folder.mkdir()
    (folder / "train.py").write_text(PROGRAM)
    job = {
        "name": "many",
        "run": "train.py",
        "nodes": 1,
        "procs_per_node": 1,
        "time": "10m",
        "launcher": "srun",
        "preflight": "off",
        "sweep": {"list": [{"SEED": 100 + i} for i in range(13)]},
        **keys,
    }
    return write(folder, job)


def read_own(run: Run) -> dict[int, str]:
    """What each element wrote."""
    paths = run.directory.glob("logs/*/0/*.0.out")
    return {int(p.parent.parent.name): p.read_text() for p in paths if not p.is_symlink()}


def test_a_sweep_above_the_limit_is_one_run_of_several_arrays(
    small_arrays: Cluster, tmp_path: Path
) -> None:
    run = start_sweep(small_arrays, tmp_path / "job")
    until(lambda: len(read_own(run)) == 13, f"13 elements: {run.story()}")
    until(
        lambda: run.show()["elements"] == {"COMPLETED": 10, "FAILED": 2, "RUNNING": 1},
        lambda: str(run.show()["elements"]),
    )
    assert read_own(run) == {i: f"{i} {100 + i} {i}\n" for i in range(13)}
    assert small_arrays.client.jobgen("cancel", f"{run.id}[8]").returncode == 0
    assert run.wait() == 1
    assert run.show()["elements"] == {"COMPLETED": 10, "FAILED": 2, "CANCELLED": 1}
    shown = run.jobgen("show").stdout
    assert "failed: [7,12]" in shown
    assert "cancelled: [8]" in shown
    assert "[12] SEED=112" in shown
    lines = small_arrays.client.jobgen("logs", f"{run.id}[7,12]", "--stdout", "--no-prefix").stdout
    assert {line for line in lines.splitlines() if line[:1].isdigit()} == {"7 107 7", "12 112 12"}
    (tmp_path / "job" / "mended").touch()
    again = small_arrays.client.jobgen("rerun", run.id, "--failed", "--wait")
    assert again.returncode == 0, again.stderr
    newest = max(run.directory.parent.glob("many-*"), key=lambda path: path.stat().st_mtime)
    found = {path.read_text() for path in newest.glob("logs/*/0/*.0.out")}
    assert found == {"7 107 7\n", "8 108 8\n", "12 112 12\n"}


def test_max_parallel_holds_over_all_arrays_and_cancel_ends_all(
    small_arrays: Cluster, tmp_path: Path
) -> None:
    sweep = {"list": [{"SEED": 108} for _ in range(13)], "max_parallel": 2}
    run = start_sweep(small_arrays, tmp_path / "job", sweep=sweep)
    until(lambda: len(read_own(run)) == 2, "two elements")
    assert run.show()["elements"] == {"RUNNING": 2, "PENDING": 11}
    listed = small_arrays.slurm("squeue", "-h", "-u", "tester", "-o", "%F %T %r").splitlines()
    assert len({line.split()[0] for line in listed}) == 3
    assert sum("Dependency" in line for line in listed) == 2
    data = answer(run.jobgen("cancel", "--json"))
    assert "CANCELLED" in str(data)
    assert run.show()["elements"] == {"CANCELLED": 13}
    assert small_arrays.slurm("squeue", "-h", "-u", "tester", "-t", "R,PD") == ""
    assert len(read_own(run)) == 2


def test_arrays_that_a_cut_submit_left_are_submitted_by_the_next_command(
    small_arrays: Cluster, tmp_path: Path
) -> None:
    """The connection may end behind the first array: nothing is lost, and nothing comes twice."""
    run = start_sweep(small_arrays, tmp_path / "job", slurm={"begin": "now+1hour"})
    taken = [run.directory / "submit" / f"array.{n}" for n in (1, 2)]
    ids = {path.read_text().strip() for path in taken}
    # as after a crash behind the question: the answer is not written down
    taken[1].unlink()
    (run.directory / "submit" / "arrays.done").unlink()
    small_arrays.run(
        "login",
        ["sh", "submit/submit_arrays.sh", *_read_words(run)],
        cwd=run.directory,
    )
    assert {path.read_text().strip() for path in taken} == ids
    answer(run.jobgen("cancel", "--json"))
    assert run.show()["elements"] == {"CANCELLED": 13}


def start_halved(cluster: Cluster, folder: Path) -> Path:
    """Submit the first array of a sweep; its client is gone, and who was to submit the others.

    No element starts yet.
    """
    job = make_sweep(folder, name=folder.name, slurm={"begin": "now+1hour"})
    profile = str(cluster.profile())
    words = cluster.client.words([*JOBGEN, "submit", str(job), "-c", profile])
    go = cluster.scratch / f"go-{folder.name}"
    waits = f'until [ -e {go} ]; do sleep 0.1; done\nexec $real "$@"'
    with cluster.replaced("sbatch", waits, "login"):
        client = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        pattern = f"{folder.name}-????????/submit/submit.sh"
        until(lambda: list(cluster.scratch.glob(pattern)), "the run directory")
        (submit,) = (path.parent for path in cluster.scratch.glob(pattern))
        # a process of another host
        lock = submit / "arrays.lock"
        lock.symlink_to("elsewhere 1")
        os.lchown(lock, submit.stat().st_uid, submit.stat().st_gid)
        go.touch()
        until((submit / "jobid").exists, "the first array")
    client.send_signal(signal.SIGKILL)
    client.communicate(timeout=HANG)
    # one that looks at the lock only after it has aged would submit the others
    until(lambda: not kill_sessions(cluster, submit.stat().st_uid), "the end of its processes")
    os.utime(lock, (time.time() - 1000,) * 2, follow_symlinks=False)
    return submit.parent


def kill_sessions(cluster: Cluster, user: int) -> int:
    """Kill what runs for this user on the login host; how many there were."""
    killed = 0
    for process in cluster.processes("login"):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{process.pid}").stat().st_uid == user:
                os.kill(process.pid, signal.SIGKILL)
                killed += 1
    return killed


def list_arrays(cluster: Cluster, name: str) -> list[str]:
    """The array of each element of a run that waits or runs."""
    words = ("squeue", "-h", "-r", "-n", name, "-t", "PD,R,CF,CG", "-o", "%F")
    return cluster.slurm(*words).split()


def test_a_sweep_whose_client_died_in_the_middle_is_recovered_whole(
    small_arrays: Cluster, tmp_path: Path
) -> None:
    directory = start_halved(small_arrays, tmp_path / "halved")
    assert len(list_arrays(small_arrays, "halved")) == 6
    state = {"XDG_STATE_HOME": str(small_arrays.client.home / "recovered")}

    def jobgen(*words: str) -> Done:
        return small_arrays.client.jobgen(*words, env=state)

    def show(run: str) -> Any:
        return answer(jobgen("show", run, "--json"))["job"]["elements"]

    words = ("-c", str(small_arrays.profile()), str(directory))
    (run,) = [each["id"] for each in answer(jobgen("recover", *words, "--json"))["recovered"]]
    until(lambda: show(run) == {"PENDING": 13}, lambda: str(show(run)))
    assert sorted(Counter(list_arrays(small_arrays, "halved")).values()) == [1, 6, 6]
    assert show(f"{run}[12]") == {"PENDING": 1}
    assert jobgen("cancel", run).returncode == 0
    assert not list_arrays(small_arrays, "halved")


@pytest.mark.parametrize("kept", [pytest.param(0, marks=pytest.mark.exhaustive), 6])
def test_arrays_that_a_crash_of_the_controller_lost_are_submitted_again(
    small_arrays: Cluster, tmp_path: Path, kept: int
) -> None:
    cluster, name = small_arrays, f"kept{kept}"
    cluster.wait_idle()
    before = cluster.save_jobs()
    directory = start_halved(cluster, tmp_path / name)
    before = cluster.save_jobs() if kept else before
    shown = answer(cluster.client.jobgen("show", "@last", "--json"))["job"]
    run = Run(cluster, shown["id"], shown["slurm_id"], directory, shown["token"])
    until(lambda: run.show() and len(list_arrays(cluster, name)) == 13, run.story)
    cluster.lose_jobs(before)
    assert len(list_arrays(cluster, name)) == kept
    (directory / "end.8").touch()
    until(lambda: run.show() and len(list_arrays(cluster, name)) == 13, run.story)
    cluster.release(name)
    assert run.wait() == 1
    assert run.show()["elements"] == {"COMPLETED": 11, "FAILED": 2}
    assert read_own(run) == {i: f"{i} {100 + i} {i}\n" for i in range(13)}


def _read_words(run: Run) -> list[str]:
    """What submit gave to submit_arrays.sh."""
    from jobgen.model.observation import format_mark

    comment = f"jobgen:{format_mark(run.token)}:1"
    digest = run.show()["digest"].removeprefix("sha256:")
    return [digest, comment, "", "sbatch", "--parsable", f"--chdir={run.directory}"]


def test_a_sweep_above_the_limit_on_jobs_is_refused_before_anything_is_sent(
    small_arrays: Cluster, tmp_path: Path
) -> None:
    for words in (
        "add account lab",
        "add user tester account=lab",
        "modify user tester where account=lab set MaxSubmitJobs=7",
    ):
        small_arrays.run("login", ["sacctmgr", "-i", *words.split()], user="root")
    try:
        before = set(small_arrays.scratch.rglob("many-*"))
        with pytest.raises(AssertionError, match=r"J295.*7 fit|7 fit.*J295") as refused:
            start_sweep(small_arrays, tmp_path / "job")
        assert "sweep.only=" in str(refused.value)
        assert set(small_arrays.scratch.rglob("many-*")) == before
    finally:
        words = "modify user tester where account=lab set MaxSubmitJobs=-1"
        small_arrays.run("login", ["sacctmgr", "-i", *words.split()], user="root")


def count_requests(cluster: Cluster) -> int:
    """The questions of the user to the controller since its statistics were reset."""
    by_user = cluster.slurm("sdiag").partition("statistics by user")[2]
    return sum(int(n) for n in re.findall(r"tester\s*\(\s*\d+\) count:(\d+)", by_user))


def test_a_thousand_elements_take_few_requests(cluster: Cluster, tmp_path: Path) -> None:
    """At most 20 questions of the user to the controller, however many elements there are."""
    cluster.slurm("sdiag", "--reset")
    sweep = {"random": {"samples": 2000, "values": {"SEED": {"int": [0, 9]}}}}
    run = start_sweep(cluster, tmp_path / "job", sweep=sweep, slurm={"begin": "now+1hour"})
    assert 2 <= count_requests(cluster) <= 40
    assert run.show()["elements"] == {"PENDING": 2000}
    answer(run.jobgen("cancel", "--json"))


def test_a_thousand_elements_in_many_arrays_take_few_requests(tmp_path: Path) -> None:
    """The limit on one array is the site's; an sbatch for each array is the least there is."""
    with Cluster.up(Options(nodes=2, conf=("MaxArraySize=101",))) as cluster:
        cluster.slurm("sdiag", "--reset")
        sweep = {"random": {"samples": 1000, "values": {"SEED": {"int": [0, 9]}}}}
        run = start_sweep(cluster, tmp_path / "job", sweep=sweep, slurm={"begin": "now+1hour"})
        assert 10 <= count_requests(cluster) <= 20
        assert run.show()["elements"] == {"PENDING": 1000}
        cluster.slurm("sdiag", "--reset")
        answer(run.jobgen("cancel", "--json"))
        assert run.show()["elements"] == {"CANCELLED": 1000}
        assert count_requests(cluster) <= 20
