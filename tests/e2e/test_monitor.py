"""A watched job on the real cluster: one monitor a node, and no trace of it after any end.

The nodes have no GPUs: a script answers as nvidia-smi does.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.e2e.runs import Run, answer, submit, write
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

TOOL = """#!/bin/bash
case "$*" in *clocks_event*) echo 'Field is not a valid field to query.'; exit 2 ;; esac
case "$*" in *--id=*) ;; *) echo 'No devices were asked for'; exit 6 ;; esac
echo '0, 97, 70123, 81559, 65, 612.34, 700.00, 1755, 1980, 2619, 0x0000000000000004'
echo '1, 0, 1, 81559, 31, 71.20, 700.00, 345, 1980, 2619, 0x0000000000000001'
"""


@pytest.fixture
def watched(cluster: Cluster, tmp_path: Path) -> dict[str, Any]:
    """The keys of a job that is watched every second, with such a tool on its PATH."""
    tools = cluster.scratch / "tools"
    tools.mkdir(exist_ok=True)
    tool = tools / "nvidia-smi"
    tool.write_text(TOOL)
    tool.chmod(0o755)
    return {
        "name": "watched",
        "nodes": 2,
        "gpus_per_node": 2,
        "time": "1h",
        "launcher": "srun",
        "monitor": "1s",
        "preflight": "off",
        "env": {"PATH": f"{tools}:$PATH"},
    }


def monitors(cluster: Cluster, run: Run) -> set[str]:
    """The hosts on which monitors of this run live."""
    found = cluster.processes_with_env(run.token)
    return {process.host for process in found if "monitor.sh" in process.command}


def rows(run: Run, restart: int = 0) -> dict[str, list[dict[str, str]]]:
    """What was written for each node."""
    folder = run.directory / "state" / "0" / f"monitor.{restart}"
    found = {}
    for path in folder.glob("*.csv"):
        with path.open(newline="") as file:
            found[path.stem] = list(csv.DictReader(file))
    return found


def submitted(cluster: Cluster, folder: Path, job: dict[str, Any], gpus: int = 8) -> Run:
    folder.mkdir(parents=True, exist_ok=True)
    nodes = {"gpus_per_node": gpus, "gpu": "A100-SXM4-80GB"}
    return submit(cluster, write(folder, job), cluster.profile(nodes=nodes))


def test_each_node_is_watched_and_the_exit_code_is_the_programs(
    cluster: Cluster, tmp_path: Path, watched: dict[str, Any]
) -> None:
    run = submitted(cluster, tmp_path / "job", {**watched, "run": "sleep 5; exit 7"})
    assert run.wait() == 1
    found = rows(run)
    assert len(found) == 2
    for node, lines in found.items():
        assert {line["gpu"] for line in lines} == {"0", "1", "host"}, node
        times = [int(line["time"]) for line in lines if line["gpu"] == "0"]
        assert 4 <= len(times) <= 12, times
        # one monitor and not two: a sample a second, and two may fall into the same whole second
        assert times == sorted(times)
        assert len(times) <= times[-1] - times[0] + 2, times
    assert not cluster.processes_with_env(run.token)
    shown = answer(run.jobgen("show", "--json"))
    assert shown["job"]["exit"] == "7:0"
    seen = shown["monitor"]
    assert [node["name"] for node in seen["nodes"]] == sorted(found)
    assert [gpu["util"] for gpu in seen["nodes"][0]["gpus"]] == [97.0, 0.0]
    assert seen["nodes"][0]["gpus"][0]["held"] == {"sw_power_cap": 1.0}
    assert {(r["kind"], tuple(r["gpus"])) for r in seen["remarks"]} == {("idle", (1,))}


def test_a_cancelled_job_leaves_no_monitor(
    cluster: Cluster, tmp_path: Path, watched: dict[str, Any]
) -> None:
    run = submitted(cluster, tmp_path / "job", {**watched, "run": "sleep 200"})
    until(lambda: len(monitors(cluster, run)) == 2, "two monitors")
    assert run.jobgen("cancel", "--yes").returncode == 0
    until(lambda: not cluster.processes_with_env(run.token), "nothing left")
    assert run.show()["state"] == "CANCELLED"


def test_a_signal_of_the_user_ends_no_monitor_and_a_requeue_begins_another(
    cluster: Cluster, tmp_path: Path, watched: dict[str, Any]
) -> None:
    program = """
        trap : USR1 USR2
        touch up.$RANK
        for i in $(seq 300); do sleep 0.2 || :; [[ ! -e end ]] || exit 0; done
        exit 1
    """
    again = {"dir": "ckpt", "grace": "10s", "requeue": True}
    run = submitted(cluster, tmp_path / "job", {**watched, "run": program, "checkpoint": again})
    source = run.directory / "src"
    until(lambda: len([*source.glob("up.*")]) == 4 and len(rows(run)) == 2, "all have begun")
    for name in ("USR1", "USR2"):
        cluster.slurm("scancel", f"--signal={name}", run.job)
    before = {node: len(lines) for node, lines in rows(run).items()}
    until(lambda: all(len(lines) > before[n] + 3 for n, lines in rows(run).items()), "more")
    cluster.slurm("scontrol", "requeue", run.job)
    cluster.start_now(run.job)
    until(lambda: len(rows(run, 1)) == 2, "the second start is watched")
    assert len(monitors(cluster, run)) == 2
    (source / "end").touch()
    assert run.wait() == 0
    assert not cluster.processes_with_env(run.token)
