"""`jobgen doctor --job` on a real Slurm: on a node, and on the login host when asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.e2e.runs import digits

pytestmark = pytest.mark.cluster


def examine(cluster: Cluster, job: Path, code: int, *words: str) -> dict[str, dict[str, Any]]:
    profile = str(cluster.profile())
    done = cluster.client.jobgen("doctor", "-c", profile, "--job", str(job), "-y", "--json", *words)
    assert done.returncode == code, done.stdout + done.stderr
    checks = json.loads(done.stdout)["data"]["checks"]
    return {check["id"].partition(".")[2]: check for check in checks}


def test_an_example_has_what_it_imports(cluster: Cluster, tmp_path: Path) -> None:
    checks = examine(cluster, digits(tmp_path), 0)
    assert {check["status"] for check in checks.values()} == {"ok"}, checks
    assert checks["python"]["group"].startswith("The job's environment, on a node (n")
    assert checks["torch"]["found"].startswith("torch 2.")
    assert "torchrun" in checks["launcher"]["found"]


def test_a_module_that_no_node_has(cluster: Cluster, tmp_path: Path) -> None:
    job = digits(tmp_path)
    program = tmp_path / "train.py"
    program.write_text("import no_such_module_here\n" + program.read_text())
    for words in ((), ("--on-login",)):
        modules = examine(cluster, job, 1, *words)["modules"]
        assert (modules["status"], modules["code"]) == ("failed", "J439")
        assert "no_such_module_here (train.py:1)" in modules["found"]


def test_a_model_is_looked_for_where_the_nodes_have_no_internet(
    cluster: Cluster, tmp_path: Path
) -> None:
    name = "meta-llama/Llama-3.1-8B"
    cache = cluster.scratch / "doctor cache"
    keys = {"train": {"model": name, "strategy": "ddp"}, "env": {"HF_HOME": str(cache)}}
    job = digits(tmp_path, **keys)
    model = examine(cluster, job, 0, "--on-login")["model"]
    assert (model["status"], model["code"]) == ("warning", "J439")
    assert f"{name} is not in the Hugging Face cache {cache}/hub" in model["found"]
    snapshot = cache / "hub" / "models--meta-llama--Llama-3.1-8B" / "snapshots" / "1"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").touch()
    for words in ((), ("--on-login",)):
        assert examine(cluster, job, 0, *words)["model"]["status"] == "ok"


def test_a_setup_that_fails_on_the_node(cluster: Cluster, tmp_path: Path) -> None:
    job = digits(tmp_path, setup="echo module: command not found >&2; exit 4")
    setup = examine(cluster, job, 1)["setup"]
    assert setup["found"] == "ended with exit code 4: module: command not found"
