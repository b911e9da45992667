"""`jobgen doctor --job`: real jobs on this machine, whose setup and imports are right or wrong."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Jobgen

ACTIVATE = f"export PATH={Path(sys.executable).parent}:$PATH"
PROGRAM = """\
import json
import click
import helper, pkg.inner
from pathlib import Path
Path("ran").touch()
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / "helper.py").write_text("import yaml\n")
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "inner.py").write_text("")
    return write(tmp_path)


def write(folder: Path, **keys: Any) -> Path:
    base = {"name": "a", "nodes": 1, "procs_per_node": 1, "time": "1h", "run": "train.py"}
    data = {**base, "launcher": "plain", "setup": ACTIVATE, **keys}
    path = folder / "job.yaml"
    path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in data.items()))
    return path


def examine(jobgen: Jobgen, code: int, *words: str) -> dict[str, dict[str, Any]]:
    said = jobgen("doctor", "-c", "local", "--job", "job.yaml", "-y", "--json", *words)
    assert said.code == code, said.out + said.err
    data = json.loads(said.out)["data"]
    assert data["well"] is (code == 0)
    return {check["id"].partition(".")[2]: check for check in data["checks"]}


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("--on-login",)], ids=["node", "login"])
def test_a_complete_environment(
    jobgen: Jobgen, job: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    checks = examine(jobgen, 0, *words)
    assert {check["status"] for check in checks.values()} == {"ok"}
    assert "all imported modules found (4)" in checks["modules"]["found"]
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("--on-login",)], ids=["node", "login"])
def test_a_missing_module(
    jobgen: Jobgen, job: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "helper.py").write_text("import no_such_module_here\n")
    modules = examine(jobgen, 1, *words)["modules"]
    assert (modules["status"], modules["code"]) == ("failed", "J439")
    assert "no_such_module_here (helper.py:1)" in modules["found"]
    assert "job.yaml:7" in modules["fix"]


@pytest.mark.slow
def test_a_program_that_is_an_installed_module(jobgen: Jobgen, tmp_path: Path) -> None:
    write(tmp_path, run="python -m no_such_package.train")
    modules = examine(jobgen, 1)["modules"]
    assert modules["found"] == "not found: no_such_package (job.yaml:5)"


@pytest.mark.slow
def test_a_setup_that_fails(jobgen: Jobgen, job: Path, tmp_path: Path) -> None:
    write(tmp_path, setup="echo no such environment >&2; exit 3")
    checks = examine(jobgen, 1)
    assert list(checks) == ["setup"]
    assert checks["setup"]["found"] == "ended with exit code 3: no such environment"
    assert "jobgen logs doctor-1" in checks["setup"]["fix"]
    login = examine(jobgen, 1, "--on-login")
    assert login["setup"]["found"] == "ended with exit code 3: no such environment"
    other = examine(jobgen, 1, "--on-login", "--set", "setup=echo another >&2; exit 4")
    assert other["setup"]["found"] == "ended with exit code 4: another"


@pytest.mark.slow
def test_variables_and_the_launcher(jobgen: Jobgen, job: Path, tmp_path: Path) -> None:
    write(
        tmp_path,
        nodes=2,
        launcher="torchrun",
        vars={"FOLDER": "/nowhere"},
        setup="export PATH=${FOLDER}:$PATH",
    )
    folder = str(Path(sys.executable).parent)
    checks = examine(jobgen, 0, "--set", f"FOLDER={folder}", "--set", "nodes=1")
    assert checks["launcher"]["found"] == f"torchrun, {folder}/torchrun"
    assert checks["torch"]["found"].startswith("torch 2.")


def test_it_is_shown_and_asked_first(jobgen: Jobgen, job: Path) -> None:
    said = jobgen("doctor", "-c", "local", "--job", "job.yaml")
    assert said.code == 2
    assert f"  {ACTIVATE}" in said.err
    assert "only these setup lines" in said.err
    assert "add -y" in said.err
    assert jobgen("ls").out.startswith("No jobs yet")


def test_a_wrong_job_is_refused_before_it_is_sent(jobgen: Jobgen, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("name: a\nnodez: 1\n")
    said = jobgen("doctor", "-c", "local", "--job", "job.yaml", "-y")
    assert said.code == 3
    assert "unknown key 'nodez'" in said.err
    assert jobgen("doctor", "--on-login").code == 2
