"""Sweeps with more elements than one job array may have, on a real Slurm."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import Cluster, Options
from tests.e2e.runs import Run, answer, submit, write
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900)]

PROGRAM = """\
import os, sys, time
from pathlib import Path
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
    return submit(cluster, write(folder, job))


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
