"""A run on a real Slurm is submitted again as it was, from what its run directory keeps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.e2e.runs import submit, write

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(600)]


def test_a_run_is_reproduced_with_its_code_and_environment(
    cluster: Cluster, tmp_path: Path
) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "train.py").write_text("print('as it was')\n")
    job = {
        "name": "repro",
        "run": "python3 train.py",
        "nodes": 1,
        "procs_per_node": 2,
        "time": "10m",
        "launcher": "srun",
        "preflight": "off",
        "setup": ["export LOADEDMODULES=gcc/12:cuda/12.4"],
    }
    run = submit(cluster, write(folder, job))
    assert run.wait() == 0
    (folder / "train.py").write_text("print('as it is now')\n")
    again = cluster.client.jobgen("reproduce", run.id, "--wait", "--json")
    assert again.returncode == 0, again.stderr
    assert "difference" not in again.stderr
    newest = max(run.directory.parent.glob("repro-*"), key=lambda path: path.stat().st_mtime)
    assert newest != run.directory
    assert {p.read_text() for p in newest.glob("logs/0/0/*.[01].out")} == {"as it was\n"}
    shown = json.loads(run.jobgen("show", "-v", "--json").stdout)
    environment = shown["data"]["provenance"]["environment"]
    assert environment["modules"] == ["gcc/12", "cuda/12.4"]
