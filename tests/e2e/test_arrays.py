"""Job arrays on a real Slurm: each element is a training of its own, with its own log and end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.e2e.runs import Run, answer, submit, write
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(600)]

PROGRAM = """\
import os, sys, time
from pathlib import Path
element, rank = os.environ["SLURM_ARRAY_TASK_ID"], os.environ["RANK"]
here = Path(os.environ["JOBGEN_RUN_DIR"])
print(f"element {element} rank {rank} of {os.environ['WORLD_SIZE']} secret {os.environ['SEED']}")
print(f"saves in {os.environ['JOBGEN_CHECKPOINT_DIR']}")
print(os.environ["MASTER_PORT"], os.environ["RDZV_ID"], file=sys.stderr, flush=True)
if rank == "0":
    (here / f"up.{element}.{os.environ['JOBGEN_RESTART']}").touch()
end = here / f"end.{element}"
stop = Path(os.environ["JOBGEN_STOP_FILE"])
while not end.exists() and not stop.exists():
    time.sleep(0.05)
if stop.exists():
    Path(os.environ["JOBGEN_STOPPED_FILE"]).touch()
    sys.exit(0)
code = int(end.read_text())
if code and rank != "0":
    time.sleep(1000)  # srun ends it: rank 0 is the one that fails
sys.exit(code)
"""


def start_array(cluster: Cluster, folder: Path, **keys: Any) -> Run:
    """Three elements of two ranks, which end as ``end`` tells them."""
    folder.mkdir()
    (folder / "train.py").write_text(PROGRAM)
    (folder / "seed").write_text("17")
    job = {
        "name": "arr",
        "run": "train.py",
        "nodes": 1,
        "procs_per_node": 2,
        "time": "10m",
        "launcher": "srun",
        "preflight": "off",
        "secrets": {"SEED": {"file": str(folder / "seed")}},
        "array": "1-3",
        **keys,
    }
    return submit(cluster, write(folder, job))


def wait_up(run: Run, *elements: int, restart: int = 0) -> None:
    names = [f"up.{element}.{restart}" for element in elements]
    until(lambda: all((run.directory / name).exists() for name in names), f"{names}: {run.story()}")


def end(run: Run, element: int, code: int) -> None:
    run.put(f"end.{element}", str(code))


def test_each_element_has_its_own_ranks_log_and_end(cluster: Cluster, tmp_path: Path) -> None:
    run = start_array(cluster, tmp_path / "job")
    wait_up(run, 1, 2, 3)
    assert run.show()["elements"] == {"RUNNING": 3}
    end(run, 1, 0)
    until(lambda: run.show()["elements"] == {"RUNNING": 2, "COMPLETED": 1}, "element 1")
    assert run.show()["state"] == "RUNNING"
    assert (run.directory / "secrets.env").exists()
    end(run, 2, 7)
    end(run, 3, 0)
    assert run.wait() == 1, run.story()
    shown = run.show()
    assert (shown["state"], shown["exit"]) == ("FAILED", "7:0")
    assert shown["elements"] == {"COMPLETED": 2, "FAILED": 1}
    assert [(f["task"], f["rank"], f["code"]) for f in shown["failures"]] == [("2", 0, 7)]
    assert "element 2: rank 0 on n" in run.jobgen("show").stdout
    assert not (run.directory / "secrets.env").exists()

    for element in (1, 2, 3):
        lines = run.jobgen("logs", "--task", str(element), "--stdout", "--no-prefix").stdout
        said = [f"element {element} rank {rank} of 2 secret 17" for rank in (0, 1)]
        assert sorted(x for x in lines.splitlines() if x.startswith("element")) == said
        folder = run.directory / "src" / "checkpoints" / str(element)
        assert {x for x in lines.splitlines() if "saves" in x} == {f"saves in {folder}"}
    prefixed = run.jobgen("logs", "--rank", "1", "--stdout").stdout
    for element in (1, 2, 3):
        (line,) = [x for x in prefixed.splitlines() if f"element {element} rank 1" in x]
        assert f"e{element}" in line.split("|")[0]
    logs = sorted(path.name for path in (run.directory / "logs").glob("job-*.out"))
    assert logs == [f"job-{run.job}_{element}.out" for element in (1, 2, 3)]
    places = run.directory.glob("logs/*/0/*.0.err")
    assert len({path.read_text() for path in places if not path.is_symlink()}) == 3


def test_one_element_is_requeued_and_cancel_ends_all(cluster: Cluster, tmp_path: Path) -> None:
    """The element whose Slurm id is the array's own would take the whole array along."""
    run = start_array(cluster, tmp_path / "job", checkpoint={"requeue": True, "grace": "5s"})
    wait_up(run, 1, 2, 3)
    elements = cluster.slurm("squeue", "-h", "-r", "-j", run.job, "-O", "JobID:20,ArrayTaskID:20")
    ids = dict(line.split()[::-1] for line in elements.splitlines())
    (first,) = [element for element, job in ids.items() if job == run.job]
    cluster.slurm("scancel", "--batch", "--signal=USR1", f"{run.job}_{first}")
    again = run.directory / "state" / first / "requeued.0"
    until(again.exists, f"the requeue: {run.story()}")
    cluster.start_now(f"{run.job}_{first}")
    wait_up(run, int(first), restart=1)
    others = [int(element) for element in ids if element != first]
    assert not [x for x in others if (run.directory / f"up.{x}.1").exists()]
    assert run.show()["elements"] == {"RUNNING": 3}
    assert (run.directory / "secrets.env").exists()

    data = answer(run.jobgen("cancel", "--json"))
    assert "CANCELLED" in str(data)
    assert run.show()["elements"] == {"CANCELLED": 3}
    assert cluster.slurm("squeue", "-h", "-j", run.job, "-t", "R,PD", check=False) == ""


def test_elements_that_wait_are_counted_and_never_start_after_cancel(
    cluster: Cluster, tmp_path: Path
) -> None:
    run = start_array(cluster, tmp_path / "job", array="0-4%2")
    wait_up(run, 0, 1)
    assert run.show()["elements"] == {"RUNNING": 2, "PENDING": 3}
    answer(run.jobgen("cancel", "--json"))
    shown = run.show()
    assert (shown["state"], shown["elements"]) == ("CANCELLED", {"CANCELLED": 5})
    assert {path.name for path in run.directory.glob("up.*")} == {"up.0.0", "up.1.0"}


def test_some_elements_are_cancelled_and_shown_and_the_others_go_on(
    cluster: Cluster, tmp_path: Path
) -> None:
    run = start_array(cluster, tmp_path / "job")
    wait_up(run, 1, 2, 3)
    assert cluster.client.jobgen("cancel", f"{run.id}[2]").returncode == 0
    until(lambda: run.show()["elements"] == {"RUNNING": 2, "CANCELLED": 1}, "element 2")
    end(run, 1, 0)
    end(run, 3, 3)
    run.wait()
    assert run.show()["elements"] == {"COMPLETED": 1, "CANCELLED": 1, "FAILED": 1}
    shown = run.jobgen("show").stdout
    assert "cancelled: [2]" in shown
    assert "failed: [3]" in shown
    lines = cluster.client.jobgen("logs", f"{run.id}[1,3]", "--json").stdout
    assert {json.loads(line)["task"] for line in lines.splitlines() if '"line"' in line} == {
        "1",
        "3",
    }
    for wrong in ("x", "7"):
        refused = cluster.client.jobgen("cancel", f"{run.id}[{wrong}]")
        assert refused.returncode == 2
    assert "has no element 7" in refused.stderr


COUNTED = """\
import os, time
from pathlib import Path
here, element = Path(os.environ["JOBGEN_RUN_DIR"]), os.environ["SLURM_ARRAY_TASK_ID"]
mine = here / f"running.{element}"
mine.touch(exist_ok=False)
while len(list(here.glob("running.*"))) < 2 and not list(here.glob("most.*")):
    time.sleep(0.05)
with (here / f"most.{element}").open("a") as most:
    print(len(list(here.glob("running.*"))), file=most)
time.sleep(0.3)
mine.unlink()
"""


@pytest.mark.parametrize(
    ("elements", "at_once"), [(6, 2), pytest.param(36, 4, marks=pytest.mark.exhaustive)]
)
def test_so_many_elements_run_at_a_time_and_each_once(
    cluster: Cluster, tmp_path: Path, elements: int, at_once: int
) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "train.py").write_text(COUNTED)
    job = {
        "name": "limited",
        "run": "train.py",
        "nodes": 1,
        "procs_per_node": 1,
        "time": "10m",
        "launcher": "srun",
        "preflight": "off",
        "array": f"0-{elements - 1}%{at_once}",
    }
    run = submit(cluster, write(tmp_path / "job", job))
    assert run.wait() == 0, run.story()
    assert run.show()["elements"] == {"COMPLETED": elements}
    counts = {int(p.suffix[1:]): p.read_text() for p in run.directory.glob("most.*")}
    assert sorted(counts) == list(range(elements))
    # one line each: no element ran twice
    assert 2 <= max(int(text) for text in counts.values()) <= at_once


SWEPT = """\
import os
print(os.environ["SLURM_ARRAY_TASK_ID"], os.environ["RANK"], os.environ["LR"], *os.sys.argv[1:])
"""


def test_each_element_of_a_sweep_gets_its_own_values(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "train.py").write_text(SWEPT)
    job = {
        "name": "scan",
        "run": "train.py --lr ${LR} --seed ${SEED}",
        "nodes": 2,
        "procs_per_node": 1,
        "time": "10m",
        "launcher": "srun",
        "preflight": "off",
        "sweep": {"grid": {"LR": ["1e-5", "3e-5"], "SEED": [0, 1]}, "max_parallel": 2},
    }
    run = submit(cluster, write(tmp_path / "job", job))
    answer(run.jobgen("wait", "--json"))
    assert run.show()["elements"] == {"COMPLETED": 4}
    wanted = enumerate((lr, seed) for lr in ("1e-5", "3e-5") for seed in (0, 1))
    assert {path.read_text() for path in run.directory.glob("logs/*/0/*.out")} == {
        f"{i} {rank} {lr} --lr {lr} --seed {seed}\n" for i, (lr, seed) in wanted for rank in (0, 1)
    }


def test_a_sweep_of_twelve_is_shown_by_the_names_of_its_elements(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "train.py").write_text(f"{SWEPT}os._exit(os.environ['LR'] == '1e-4')\n")
    job = {
        "name": "twelve",
        "run": "train.py",
        "nodes": 1,
        "procs_per_node": 1,
        "time": "10m",
        "launcher": "srun",
        "preflight": "off",
        "sweep": {"grid": {"LR": ["1e-3", "1e-4"], "SEED": list(range(6))}},
    }
    run = submit(cluster, write(tmp_path / "job", job))
    assert run.wait() == 1, run.story()
    assert run.show()["elements"] == {"COMPLETED": 6, "FAILED": 6}
    texts = [path.read_text() for path in run.directory.glob("logs/*/0/*.0.out")]
    assert sorted(text.split()[0] for text in texts) == sorted(map(str, range(12)))
    rows = answer(run.jobgen("show", "-v", "--json"))["elements"]
    grid = [f"LR={rate},SEED={seed}" for rate in ("1e-3", "1e-4") for seed in range(6)]
    assert [row["name"] for row in rows] == grid
    assert [row["state"] for row in rows] == ["COMPLETED"] * 6 + ["FAILED"] * 6


def test_what_failed_of_a_sweep_runs_again_with_its_values(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "job").mkdir()
    program = f"{SWEPT}os.path.exists('mended') or os.environ['SEED'] == '0' or os._exit(3)\n"
    (tmp_path / "job" / "train.py").write_text(program)
    job = {
        "name": "again",
        "run": "train.py",
        "nodes": 1,
        "procs_per_node": 1,
        "time": "10m",
        "launcher": "srun",
        "preflight": "off",
        "sweep": {"grid": {"LR": ["1e-5", "3e-5"], "SEED": [0, 1]}},
    }
    run = submit(cluster, write(tmp_path / "job", job))
    assert run.wait() == 1
    shown = run.jobgen("show").stdout
    assert "failed: [1,3]" in shown
    assert "[1] LR=1e-5,SEED=1" in shown
    (tmp_path / "job" / "mended").touch()
    again = cluster.client.jobgen("rerun", run.id, "--failed", "--wait", "--json")
    assert again.returncode == 0, again.stderr
    newest = max(run.directory.parent.glob("again-*"), key=lambda path: path.stat().st_mtime)
    found = {path.read_text() for path in newest.glob("logs/*/0/*.out")}
    assert found == {"1 0 1e-5\n", "3 0 3e-5\n"}


def test_each_verb_takes_some_elements(cluster: Cluster, tmp_path: Path) -> None:
    run = start_array(cluster, tmp_path / "job")
    wait_up(run, 1, 2, 3)
    end(run, 1, 0)
    end(run, 2, 7)
    client = cluster.client
    waited = [client.jobgen("wait", f"{run.id}[{e}]").returncode for e in ("1", "2", "1-2")]
    assert waited == [0, 1, 1]
    data = answer(client.jobgen("show", f"{run.id}[1,3]", "--json"))
    assert (data["job"]["id"], data["job"]["ended"]) == (f"{run.id}[1,3]", False)
    states = {row["number"]: row["state"] for row in data["elements"]}
    assert states == {1: "COMPLETED", 3: "RUNNING"}
    assert "[2]  failed" in client.jobgen("show", f"{run.id}[2]").stdout
    listed = client.jobgen("ls", "-v").stdout
    assert "  [3]  running" in listed
    assert "  [2]  failed" in listed
    end(run, 3, 0)
    assert run.wait() == 1
    planned = client.jobgen("rerun", f"{run.id}[2-3]", "--dry-run", "-v")
    assert planned.returncode == 0, planned.stderr
    assert "2 elements" in planned.stdout
    for verb in ("show", "wait", "rerun"):
        refused = client.jobgen(verb, f"{run.id}[9]")
        assert refused.returncode == 2, verb
        assert "has no element 9" in refused.stderr
