from __future__ import annotations

import os
from pathlib import Path

import pytest

from jobgen.app import provenance
from tests.git import SETTINGS, git


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy this machine is, git gets the time that it needs."""
    monkeypatch.setattr(provenance, "_SECONDS", 300)


def commit(folder: Path, **env: str) -> str:
    settings = {"PATH": os.environ["PATH"], "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    return provenance.commit(folder, {**settings, **SETTINGS, **env})


def committed(folder: Path, text: str) -> Path:
    """A repository of one file with this text."""
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "train.py").write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "one")
    return folder


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return committed(tmp_path / "mine", "1\n")


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


def test_a_repository_that_the_environment_names_is_not_taken_for_the_folders_own(
    repository: Path, tmp_path: Path
) -> None:
    """As where jobgen is called by a hook of another repository, or by ``git rebase --exec``."""
    other = committed(tmp_path / "other", "2\n")
    own = git(repository, "rev-parse", "HEAD").strip()
    names = {"GIT_DIR": str(other / ".git"), "GIT_WORK_TREE": str(other)}
    names |= {"GIT_INDEX_FILE": str(other / ".git/index"), "GIT_PREFIX": "x/"}
    assert commit(repository, **names) == own
    for name, value in names.items():
        assert commit(repository, **{name: value}) == own, name
