"""The hook of .pre-commit-hooks.yaml, run by the real pre-commit on a repository of job files."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.git import SETTINGS, git

ROOT = Path(__file__).parents[1]
GOOD = "name: good\nnodes: 1\nprocs_per_node: 2\ntime: 10m\nrun: python train.py\n"
CONFIG = """\
repos:
- repo: {repo}
  rev: v1
  hooks:
  - id: jobgen-lint
    language: system
"""
"""``language: system`` takes the jobgen that is tested, where a user gets an installed one."""

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("pre_commit") is None, reason="pre-commit is not installed"
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with the hook, which is taken from another repository."""
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / ".pre-commit-hooks.yaml").write_text((ROOT / ".pre-commit-hooks.yaml").read_text())
    project = tmp_path / "project"
    (project / "clusters").mkdir(parents=True)
    (project / ".pre-commit-config.yaml").write_text(CONFIG.format(repo=hooks))
    (project / "train.py").write_text("print(1)\n")
    (project / "other.yaml").write_text("any: thing\n")
    (project / "job.good.yaml").write_text(GOOD)
    for folder in (hooks, project):
        git(folder, "init", "-q")
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", "all")
    git(hooks, "tag", "v1")
    return project


def run_hooks(project: Path) -> tuple[int, str]:
    """What pre-commit says of all files of a project."""
    programs = project.parent / "bin"
    programs.mkdir(exist_ok=True)
    jobgen = programs / "jobgen"
    jobgen.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m jobgen "$@"\n')
    jobgen.chmod(0o755)
    env = {
        **SETTINGS,
        "HOME": str(project.parent),
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "PRE_COMMIT_HOME": str(project.parent / "cache"),
    }
    words = [sys.executable, "-m", "pre_commit", "run", "--all-files"]
    done = subprocess.run(words, cwd=project, env=env, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_good_files_pass(project: Path) -> None:
    code, text = run_hooks(project)
    assert code == 0, text
    assert "Passed" in text


def test_a_wrong_key_fails_at_its_line(project: Path) -> None:
    (project / "job.yaml").write_text(GOOD.replace("nodes:", "nods:"))
    git(project, "add", "job.yaml")
    code, text = run_hooks(project)
    assert code == 1, text
    assert "job.yaml:2" in text


def test_other_yaml_files_are_left_alone(project: Path) -> None:
    git(project, "rm", "-q", "job.good.yaml")
    code, text = run_hooks(project)
    assert code == 0, text
    assert "no files to check" in text
