"""What ended runs hold is removed on a real cluster, beside runs that are live."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.e2e.runs import Run, answer, submit, write
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(600)]


def start(cluster: Cluster, folder: Path, name: str, run: str, **keys: Any) -> Run:
    """A job of one node, with a file beside it that only its upload needs."""
    folder = folder / name
    folder.mkdir()
    (folder / "data.txt").write_text("x" * 5000)
    job = {
        "name": name,
        "run": run,
        "nodes": 1,
        "procs_per_node": 1,
        "time": "10m",
        "launcher": "plain",
        "preflight": "off",
        **keys,
    }
    return submit(cluster, write(folder, job))


def files(run: Run) -> set[str]:
    return {
        str(path.relative_to(run.directory))
        for path in run.directory.rglob("*")
        if path.is_symlink() or path.is_file()
    }


def prune(cluster: Cluster, *words: str) -> dict[str, Any]:
    return answer(cluster.client.jobgen("prune", "--json", "-c", "testbed", *words))  # type: ignore[no-any-return]


def test_only_what_has_ended_and_nobody_needs_is_removed(cluster: Cluster, tmp_path: Path) -> None:
    first = start(cluster, tmp_path, "p-first", "echo result >result.txt")
    assert first.wait() == 0
    end = cluster.scratch / "p-end"
    needs = start(
        cluster,
        tmp_path,
        "p-needs",
        f"until [ -e {end} ]; do sleep 0.2; done",
        after=["p-first"],
    )
    cluster.wait_state(needs.job, "RUNNING")
    held = start(cluster, tmp_path, "p-held", "true", slurm={"hold": True})
    fails = start(cluster, tmp_path, "p-fails", "echo made >made.txt; exit 3")
    assert fails.wait() == 1
    precious = cluster.scratch / "p-precious"
    precious.write_text("x")
    (fails.directory / "src" / "planted").symlink_to(precious)
    (fails.directory / "logs" / "planted").symlink_to(cluster.scratch)
    before = {run.id: files(run) for run in (first, needs, held)}
    kept = files(first)
    mine = {first.id, needs.id, held.id, fails.id}

    listed = prune(cluster)
    assert {run["id"] for run in listed["runs"]} & mine == {fails.id}
    assert {first.id, needs.id, held.id} <= set(listed["live"])
    (row,) = [run for run in listed["runs"] if run["id"] == fails.id]
    assert row["bytes"]["sources"] > 5000
    assert row["bytes"]["outputs"] == len("made\n")
    assert fails.directory.exists()

    for run in (first, needs, held):
        refused = cluster.client.jobgen("prune", run.id, "-y")
        assert refused.returncode == 2, refused.stdout + refused.stderr
        assert f"{run.id} is live" in refused.stderr
    assert "p-needs-1 waits for it" in cluster.client.jobgen("prune", first.id, "-y").stderr

    (done,) = prune(cluster, fails.id, "--state", "failed", "-y")["runs"]
    assert (done["id"], done["outcome"], done["text"]) == (fails.id, "removed", "")
    assert {run.id: files(run) for run in (first, needs, held)} == before
    assert precious.exists()
    assert files(fails) == {"TOKEN", "run.json", "src/made.txt", "src/planted"}

    end.touch()
    assert needs.wait() == 0
    assert held.jobgen("cancel").returncode == 0
    (done,) = prune(cluster, first.id, "--what", "sources", "-y")["runs"]
    assert done["outcome"] == "removed"
    assert kept - files(first) == {"src/job.yaml", "src/data.txt"}
    removed = prune(cluster, first.id, needs.id, held.id, fails.id, "--outputs", "-y")["runs"]
    assert {run["outcome"] for run in removed} == {"removed"}
    assert not any(run.directory.exists() for run in (first, needs, held, fails))
    assert precious.exists()
    shown = first.jobgen("show")
    assert "removed sources, logs, outputs and scripts" in shown.stdout
    assert "jobgen prune removed them" in first.jobgen("logs").stderr


def test_without_the_controller_nothing_is_removed(cluster: Cluster, tmp_path: Path) -> None:
    run = start(cluster, tmp_path, "p-frozen", "true")
    assert run.wait() == 0
    before = files(run)
    with cluster.frozen_controller():
        done = cluster.client.jobgen("prune", run.id, "-y", "--json")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "does not answer" in json.loads(done.stdout)["error"]["message"]
    assert files(run) == before
    until(lambda: prune(cluster, run.id, "-y")["runs"], "an answer of the controller")
    assert not run.directory.exists()
