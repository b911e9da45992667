"""Code that stays on the cluster, on a real one: it runs where it is, on every node."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.e2e.runs import submit, write
from tests.git import git

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def test_every_rank_starts_in_the_directory_and_the_commit_is_shown(
    cluster: Cluster, tmp_path: Path
) -> None:
    code, folder = cluster.scratch / "checkout", tmp_path / "job"
    code.mkdir()
    folder.mkdir()
    (code / "where.sh").write_text("pwd\n")
    git(code, "init", "-q")
    git(code, "add", ".")
    git(code, "commit", "-qm", "one")
    job = {
        "name": "in-place",
        "run": "bash where.sh",
        "nodes": 2,
        "procs_per_node": 1,
        "time": "10m",
        "launcher": "srun",
        "workdir": {"at": str(code)},
    }
    run = submit(cluster, write(folder, job))
    assert run.wait() == 0, run.story()
    assert run.ranks() == dict.fromkeys((0, 1), f"{code}\n".encode())
    (recorded,) = run.show()["codes"]
    head = git(code, "rev-parse", "HEAD").strip()
    assert (recorded["at"], recorded["commit"], recorded["changed"]) == (str(code), head, 0)
