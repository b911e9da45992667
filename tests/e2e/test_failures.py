"""Jobs that really fail on a real cluster: the screens name the cause, and so does the command
that they print."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.e2e.runs import answer, submit, write
from tests.products import one_of_each

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(420)]

SCREEN = 25
RAISES = """
import os, time
def load(batch):
    return batch["labels"]
if os.environ["RANK"] == "1":
    load({"inputs": 1})
time.sleep(600)
"""
LOST = """
import os, signal, sys, time
if os.environ["RANK"] == "0":
    time.sleep(1)
    raise ConnectionResetError("Connection reset by peer")
signal.signal(signal.SIGTERM, lambda *_: None)
try:
    raise ValueError("the loss is nan")
finally:
    time.sleep(5)
"""
"""Rank 1 has the error, and takes its time to end; rank 0 ends first, by what it noticed."""
HANGS = """
from datetime import timedelta
import time
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
group = dist.new_group()
if dist.get_rank() == 1:
    print("step 7: staging shard 12", flush=True)
dist.barrier()
# not before: ranks of a busy machine may take longer than that to form the group
dist.distributed_c10d._set_pg_timeout(timedelta(seconds=2), group)
if dist.get_rank() == 1:
    time.sleep(600)
dist.all_reduce(torch.ones(4), group=group)
"""
"""Rank 1 has written its last line before rank 0 begins to wait for it."""
CASES: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "exception": (
        {"run": "main.py", "launcher": "srun"},
        RAISES,
        "  why    KeyError: 'labels' (sure)",
        "  where  rank 1 on n2 failed first (exit code 1: Python exception)",
    ),
    "killed": (
        {"run": '[ "$RANK" = 0 ] || kill -KILL $$\nsleep 600', "launcher": "srun"},
        "",
        "  why    killed by a signal from outside (likely)",
        "  where  rank 1 on n2 failed first (exit code 137: SIGKILL, often the",
    ),
    "victim first": (
        {"run": "main.py", "launcher": "srun"},
        LOST,
        "  why    the loss is not a number: ValueError: the loss is nan (sure)",
        "  where  rank 1 on n2, which ended after rank 0 (exit code 1)",
    ),
    "setup": (
        {"run": "main.py", "launcher": "srun", "setup": '[ "$SLURM_NODEID" = 0 ] || load_cuda'},
        "",
        "  why    setup failed: load_cuda (sure)",
        "  where  n2 failed first, before its ranks started (exit code 127)",
    ),
}


@pytest.mark.parametrize("name", one_of_each(CASES, kept=["exception", "victim first", "setup"]))
def test_the_screens_and_their_command_show_the_cause(
    cluster: Cluster, tmp_path: Path, name: str
) -> None:
    keys, program, why, where = CASES[name]
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "main.py").write_text(program)
    job = {"name": "fails", "nodes": 2, "procs_per_node": 1, "time": "1h", "preflight": "off"}
    run = submit(cluster, write(folder, {**job, **keys}))
    waited = run.jobgen("wait")
    assert waited.returncode == 1
    lines = waited.stdout.rstrip().split("\n")
    at = next(i for i, line in enumerate(lines) if line.startswith(run.id))
    assert lines[at + 1 : at + 3] == [why, where], run.story()
    shown = run.jobgen("show").stdout.rstrip().split("\n")
    assert shown[1:3] == [why, where]
    assert len(shown) <= SCREEN
    assert all(len(line) <= 80 for line in [*lines, *shown[:3]])
    command = lines[-1].partition("jobgen ")[2]
    assert shown[-1].endswith(command)
    log = cluster.client.jobgen(*shlex.split(command))
    text = why.rpartition(": ")[2].removesuffix(" (sure)") or "sleep"
    assert log.returncode == 0
    assert len(log.stdout.split("\n")) < SCREEN
    assert text in log.stdout or name == "killed"
    cause = answer(run.jobgen("show", "--json"))["job"]["cause"]
    assert (cause["rank"], cause["node"]) == (None if name == "setup" else 1, "n2")


@pytest.mark.exhaustive
def test_a_job_that_hangs_to_its_limit_shows_what_each_rank_wrote_last(
    cluster: Cluster, tmp_path: Path
) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    run = 'echo "rank $RANK waits"\nexec sleep 600'
    keys = {"name": "hangs", "nodes": 2, "procs_per_node": 1, "time": "1h", "launcher": "srun"}
    hangs = submit(cluster, write(folder, {**keys, "run": run, "preflight": "off"}))
    cluster.wait_state(hangs.job, "RUNNING")
    cluster.slurm("scontrol", "update", f"JobId={hangs.job}", "TimeLimit=1")
    text = hangs.jobgen("wait").stdout
    assert "  why    reached the time limit" in text, hangs.story()
    assert "  rank 0: rank 0 waits\n  rank 1: rank 1 waits\n" in text


@pytest.mark.exhaustive
def test_of_an_array_the_element_that_failed_is_explained(cluster: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "main.py").write_text(
        'import os\nif os.environ["SLURM_ARRAY_TASK_ID"] == "1":\n    raise KeyError("labels")\n'
    )
    keys = {"name": "array", "nodes": 1, "procs_per_node": 1, "time": "1h", "launcher": "srun"}
    more = {"run": "main.py", "preflight": "off", "array": "0-1"}
    run = submit(cluster, write(folder, {**keys, **more}))
    text = run.jobgen("wait").stdout
    assert "  why    KeyError: 'labels'" in text, run.story()
    command = text.rstrip().rpartition("jobgen ")[2]
    assert command == f"logs {run.id} --task 1 --rank 0 --stderr -n 50"
    assert "KeyError: 'labels'" in cluster.client.jobgen(*shlex.split(command)).stdout


@pytest.mark.train("torch")
def test_of_a_rank_that_others_waited_for_the_last_line_is_shown(
    cluster: Cluster, tmp_path: Path
) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "main.py").write_text(HANGS)
    keys = {"name": "waits", "nodes": 2, "procs_per_node": 1, "time": "1h", "launcher": "srun"}
    job = {**keys, "run": "main.py", "preflight": "off"}
    run = submit(cluster, write(folder, job))
    assert run.jobgen("wait").returncode == 1
    shown = " ".join(run.jobgen("show").stdout.split())
    assert "rank 1 on n2 did not join" in shown, run.story()
    assert "n2.1.out:1: step 7: staging shard 12" in shown
    found = answer(run.jobgen("diagnose", "--json"))
    assert (found["cause"], found["rank"], found["node"]) == ("collective_timeout", 1, "n2")
    assert found["last_lines"][0].endswith("n2.1.out:1: step 7: staging shard 12")
