"""What docs/howto/environment.md shows brings a real environment into a real job."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import home_of, process
from tests.docs.pages import ROOT

MODULES = Path("/etc/profile.d/modules.sh")
PROGRAM = """\
import os, sys
print("prefix", sys.prefix)
print("cuda", os.environ.get("CUDA_HOME"))
import only_in_the_environment
"""


def make_venv(folder: Path) -> None:
    """A virtual environment, with a module that no other Python has."""
    words = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
    subprocess.run(words, check=True)
    add_module(folder)


def add_module(folder: Path) -> None:
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "only_in_the_environment.py").touch()


def submit(
    folder: Path, name: str, site: str = "", **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run a job with the setup of an example, on two nodes of this machine.

    ``site`` is a line that a site's own profile would run before the job's modules are loaded.
    """
    text = (ROOT / "examples" / "howto" / name).read_text()
    example = yaml.safe_load(text.replace("  module load", f"  {site}\n  module load"))
    job = {**example, "cluster": "local", "procs_per_node": 1, "launcher": "srun"}
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    (folder / "train.py").write_text(PROGRAM)
    return process("submit", "--follow", "-q", cwd=folder, **environ)


@pytest.mark.slow
def test_a_venv_of_the_cluster_is_activated_on_every_node(tmp_path: Path) -> None:
    envs = home_of(tmp_path) / "envs" / "llm"
    make_venv(envs)
    done = submit(tmp_path, "env-venv.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"prefix {envs}" in done.stdout


@pytest.mark.slow
def test_a_venv_that_is_missing_ends_the_job_and_is_named(tmp_path: Path) -> None:
    done = submit(tmp_path, "env-venv.yaml")
    assert done.returncode == 1
    assert "setup failed: source ~/envs/llm/bin/activate" in done.stdout


def test_a_venv_in_the_folder_is_excluded_by_init_and_else_refused(tmp_path: Path) -> None:
    make_venv(tmp_path / ".venv")
    (tmp_path / "train.py").write_text("import torch\n")
    assert process("init", "-y", cwd=tmp_path).returncode == 0
    assert process("plan", cwd=tmp_path).returncode == 0
    text = (tmp_path / "job.yaml").read_text()
    lines = [line for line in text.split("\n") if not line.startswith("workdir:")]
    (tmp_path / "job.yaml").write_text("\n".join(lines))
    refused = process("plan", cwd=tmp_path)
    assert refused.returncode == 3
    assert ".venv" in refused.stderr


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("uv") is None, reason="uv is not installed")
def test_an_environment_of_uv_is_checked_against_the_lock_and_activated(tmp_path: Path) -> None:
    envs = home_of(tmp_path) / "envs" / "llm"
    uv = {"UV_OFFLINE": "1", "UV_PYTHON": sys.executable, "UV_NO_CONFIG": "1"}
    environ = {"PATH": os.environ["PATH"], "HOME": str(home_of(tmp_path)), **uv}
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "llm"\nversion = "1"\nrequires-python = ">=3.11"\n'
        "[tool.uv]\npackage = false\n"
    )
    home_of(tmp_path).mkdir()
    subprocess.run(["uv", "lock"], cwd=tmp_path, env=environ, check=True)
    made = {**environ, "UV_PROJECT_ENVIRONMENT": str(envs)}
    subprocess.run(["uv", "sync", "--frozen"], cwd=tmp_path, env=made, check=True)
    add_module(envs)
    done = submit(tmp_path, "env-uv.yaml", **uv)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"prefix {envs}" in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(not MODULES.exists(), reason="environment-modules is not installed")
def test_a_module_is_loaded_before_the_venv(tmp_path: Path) -> None:
    make_venv(home_of(tmp_path) / "envs" / "llm")
    file = home_of(tmp_path) / "modulefiles" / "cuda" / "12.8"
    file.parent.mkdir(parents=True)
    file.write_text("#%Module\nsetenv CUDA_HOME /opt/cuda-12.8\n")
    done = submit(tmp_path, "env-modules.yaml", site=f"module use {file.parent.parent}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "cuda /opt/cuda-12.8" in done.stdout
    assert f"prefix {home_of(tmp_path) / 'envs' / 'llm'}" in done.stdout
