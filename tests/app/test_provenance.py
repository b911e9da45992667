from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from jobgen.app.provenance import commit


def git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", "-C", str(folder), *identity, *words], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    (tmp_path / "train.py").write_text("1\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "one")
    return tmp_path


def test_a_clean_tree_is_its_commit(repository: Path) -> None:
    assert len(commit(repository)) == 40


def test_a_changed_tree_is_marked(repository: Path) -> None:
    (repository / "train.py").write_text("22\n")
    assert commit(repository).endswith("+")


@pytest.mark.parametrize("key", ["core.fsmonitor", "filter.x.clean"])
def test_a_program_that_the_repository_names_is_not_run(repository: Path, key: str) -> None:
    mark = repository / "was-run"
    git(repository, "config", key, f"touch {mark}; cat")
    (repository / ".gitattributes").write_text("* filter=x\n")
    (repository / "train.py").write_text("22\n")
    assert commit(repository).endswith("?")
    assert not mark.exists()


def test_outside_git_there_is_no_commit(tmp_path: Path) -> None:
    assert commit(tmp_path) == ""
