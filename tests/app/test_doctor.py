"""The doctor on this machine: its own folders broken for real, and the local cluster looked at."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from jobgen.app.doctor import Examination, examine
from jobgen.app.world import World
from jobgen.ledger import database
from jobgen.survey.health import Verdict
from tests.app.conftest import Link


def verdicts(world: World, name: str | None = None) -> dict[str, Verdict]:
    found = examine(world, name)
    assert found.well is not any(f.verdict.status == "failed" for f in found.findings)
    return {f.id: f.verdict for f in found.findings}


@pytest.fixture
def programs(world: World, tmp_path: Path) -> Callable[..., World]:
    """A world with these programs first on PATH, or with them alone: name → text of a script."""

    def make(*, alone: bool = False, **scripts: str) -> World:
        folder = tmp_path / "bin"
        folder.mkdir()
        for name, text in scripts.items():
            (folder / name.replace("_", "-")).write_text(f"#!/bin/sh\n{text}\n")
            (folder / name.replace("_", "-")).chmod(0o755)
        path = str(folder) if alone else f"{folder}:{world.environ['PATH']}"
        return replace(world, environ={**world.environ, "PATH": path})

    return make


def test_this_machine_alone(world: World, link: Link) -> None:
    found: Examination = examine(world, None)
    assert found.well
    assert found.cluster == ""
    assert found.profiles == ("here",)
    assert link.dialled == 0, "no cluster is asked"
    assert not world.state.exists(), "nothing is made"


def test_the_local_cluster(world: World, tmp_path: Path) -> None:
    found = verdicts(world, "here")
    assert found["host.programs"].status == "ok"
    assert found["disk.root"].status == "ok"
    assert "can be created" in found["disk.root"].found
    assert not (tmp_path / "root").exists()
    assert not [name for name in found if name.startswith(("slurm.", "ssh."))]


def test_a_notebook_that_another_jobgen_holds(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY", 0.1)
    world.ledger.path.parent.mkdir(parents=True)
    database.open_database(world.ledger.path, create=True).close()
    assert verdicts(world)["client.runs"].status == "ok"
    world.ledger.close()
    other = sqlite3.connect(world.ledger.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    held = verdicts(world)["client.runs"]
    other.close()
    world.ledger.close()
    assert held.status == "failed"
    assert "locked by another jobgen" in held.found


def test_a_notebook_that_is_none(world: World) -> None:
    world.ledger.path.parent.mkdir(parents=True)
    world.ledger.path.write_bytes(b"no database at all, and long enough to be looked at" * 99)
    found = verdicts(world)["client.runs"]
    assert (found.status, found.code) == ("failed", "J434")
    assert ".damaged" in found.fix


def test_profiles_that_others_may_change(world: World) -> None:
    world.config.chmod(0o777)
    assert verdicts(world)["client.config"].fix.startswith("chmod go-w ~/.config/jobgen")


def test_an_agent_that_is_gone_and_one_that_hangs(
    world: World, tmp_path: Path, programs: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {**world.environ, "SSH_AUTH_SOCK": str(tmp_path / "gone")}
    found = verdicts(replace(world, environ=environ))["client.keys"]
    assert (found.status, "no longer runs" in found.found) == ("warning", True)
    monkeypatch.setattr("jobgen.app.doctor.local_checks.PATIENCE", 0.2)
    stuck = verdicts(programs(ssh_add="exec sleep 20"))["client.keys"]
    assert "does not answer" in stuck.found


def test_a_python_without_torch(programs: Callable[..., World]) -> None:
    found = verdicts(programs(python="echo no torch >&2; exit 1", python3="echo 2.9.0"))
    assert found["local.torch"].status == "warning"


def test_a_profile_with_gpus_that_this_machine_lacks(programs: Callable[..., World]) -> None:
    world = programs(nvidia_smi="echo No devices were found; exit 6")
    profile = world.config / "clusters" / "here.yaml"
    text = profile.read_text()
    assert "local.gpus" not in verdicts(world, "here")
    profile.write_text(text.replace("count: 2", "count: 1, gpus_per_node: 2, gpu: RTX-4090"))
    found = verdicts(world, "here")["local.gpus"]
    assert found.status == "warning"
    assert found.found.endswith("but nvidia-smi: No devices were found")
    profile.write_text(text.replace("count: 2", "count: 1, gpus_per_node: 8, gpu: MI300X"))
    assert "local.gpus" not in verdicts(world, "here")


def test_a_machine_with_no_programs(programs: Callable[..., World]) -> None:
    found = verdicts(programs(alone=True))
    assert {name for name, v in found.items() if v.status == "warning"} == {
        *("client.ssh", "client.keys", "client.git", "local.programs", "local.torch")
    }


def test_a_clock_that_is_before_jobgen_itself(world: World) -> None:
    assert verdicts(replace(world, now=lambda: 1e9))["client.clock"].status == "failed"
