"""A new profile, proved by a job on two nodes of a real Slurm."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobgen.load import check
from tests.cluster import Cluster, Options
from tests.e2e.runs import digits, write

pytestmark = [pytest.mark.cluster, pytest.mark.train("torch")]

SETUP = f"export PATH={Path(sys.executable).parent}:$PATH"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two nodes without GPUs."""
    with Cluster.up(Options(nodes=2, gres=("", ""))) as running:
        yield running


def test_a_profile_is_proved_and_says_so(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "proved.yaml"
    words = ["cluster", "add", "proved", "--from", "testbed", "--no-probe", "--output", str(file)]
    like = str(digits(tmp_path / "like", setup=SETUP))
    root = ["--root", str(cluster.scratch / "proved")]
    done = cluster.client.jobgen(*words, *root, "--prove", "--like", like)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Proved, and noted in" in done.stdout
    text = file.read_text()
    assert check(text, "proved.yaml").valid
    comment = "\n".join(line for line in text.splitlines() if line.startswith("# "))
    assert "by bench-allreduce-" in comment
    assert "2 nodes (n" in comment
    assert "all-reduce over gloo: correct" in comment


def test_a_profile_that_cannot_be_proved_is_kept(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    words = ["cluster", "add", "mine", "--from", "testbed", "--no-probe", "--output", str(file)]
    job = {"name": "a", "nodes": 1, "time": "1h", "run": "train.py", "setup": "exit 5"}
    like = str(write(tmp_path, job))
    root = ["--root", str(cluster.scratch / "mine")]
    done = cluster.client.jobgen(*words, *root, "--prove", "--like", like, "--json")
    assert done.returncode == 1, done.stdout + done.stderr
    proof = json.loads(done.stdout)["data"]["proof"]
    assert not proof["ok"]
    assert proof["lines"]
    assert "Tested" not in file.read_text()
