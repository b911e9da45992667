from __future__ import annotations

import os
from pathlib import Path

import pytest

from jobgen.app import provenance
from tests.git import SETTINGS, git

PROGRAMS = (
    "alias.status",
    "alias.rev-parse",
    "core.alternateRefsCommand",
    "core.askPass",
    "core.editor",
    "core.fsmonitor",
    "core.gitProxy",
    "core.hooksPath",
    "core.pager",
    "core.sshCommand",
    "credential.helper",
    "credential.https://example.org.helper",
    "diff.external",
    "diff.x.command",
    "diff.x.textconv",
    "filter.x.clean",
    "filter.x.process",
    "filter.x.smudge",
    "gc.recentObjectsHook",
    "gpg.program",
    "gpg.ssh.program",
    "gpg.ssh.defaultKeyCommand",
    "interactive.diffFilter",
    "merge.x.driver",
    "pager.status",
    "pager.rev-parse",
    "remote.origin.receivepack",
    "remote.origin.uploadpack",
    "remote.origin.vcs",
    "sequence.editor",
    "submodule.mine.update",
    "trailer.x.cmd",
    "trailer.x.command",
    "uploadpack.packObjectsHook",
    "web.browser",
)
"""Keys of git-config(1) whose value is, or names, a program."""


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy this machine is, git gets the time that it needs."""
    monkeypatch.setattr(provenance, "_SECONDS", 300)


def commit(folder: Path, **env: str) -> str:
    settings = {"PATH": os.environ["PATH"], "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    return provenance.read_commit(folder, {**settings, **SETTINGS, **env})


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


def _set_programs(repository: Path, mark: Path, place: str) -> None:
    """Make every key of ``PROGRAMS`` and every hook of this repository touch ``mark``."""
    script = mark.parent / "program"
    script.write_text(f"#!/bin/sh\ntouch '{mark}'\ncat\n")
    script.chmod(0o755)
    hooks = mark.parent / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-index-change", "fsmonitor-watchman", "query-watchman", "pre-auto-gc"):
        (hooks / name).write_bytes(script.read_bytes())
        (hooks / name).chmod(0o755)
    git(repository, "config", "extensions.worktreeConfig", "true")
    git(repository, "config", "include.path", str(repository / ".git" / "included"))
    git(repository, "config", "extensions.partialClone", "origin")
    for key in PROGRAMS:
        value = hooks if key == "core.hooksPath" else script
        git(repository, "config", *_PLACES[place], key, str(value))
    git(repository, "config", *_PLACES[place], "remote.origin.url", f"ext::{script}")
    git(repository, "config", *_PLACES[place], "remote.origin.promisor", "true")
    git(repository, "config", *_PLACES[place], "filter.x.required", "true")


_PLACES = {
    "config": ("--local",),
    "config.worktree": ("--worktree",),
    "an included file": ("--file", ".git/included"),
}


@pytest.mark.parametrize("place", _PLACES)
def test_a_program_that_the_repository_names_is_not_run(repository: Path, place: str) -> None:
    mark = repository.parent / "was-run"
    (repository / ".gitattributes").write_text("* filter=x diff=x merge=x\n")
    _set_programs(repository, mark, place)
    mark.unlink(missing_ok=True)
    assert commit(repository)[40:] == ""
    (repository / "train.py").write_text("22\n")
    assert commit(repository)[40:] == "?"
    (repository / ".gitattributes").unlink()
    assert commit(repository)[40:] == "+"
    assert not mark.exists()


def test_a_program_that_a_submodule_names_is_not_run(repository: Path, tmp_path: Path) -> None:
    inner = committed(repository / "inner", "3\n")
    git(repository, "add", "inner")
    git(repository, "commit", "-q", "-m", "two")
    mark = tmp_path / "was-run"
    (inner / ".gitattributes").write_text("* filter=x\n")
    _set_programs(inner, mark, "config")
    (inner / "train.py").write_text("44\n")
    mark.unlink(missing_ok=True)
    assert commit(repository)[40:] == ""
    assert commit(inner)[40:] == "?"
    assert not mark.exists()


def test_the_programs_are_run_by_a_plain_status(repository: Path) -> None:
    """So that the tests above can fail."""
    mark = repository.parent / "was-run"
    (repository / ".gitattributes").write_text("* filter=x\n")
    _set_programs(repository, mark, "config.worktree")
    mark.unlink(missing_ok=True)
    # as long as before, so that git has to compare the text, which is what the filter gives
    (repository / "train.py").write_text("2\n")
    with pytest.raises(AssertionError, match="filter"):
        git(repository, "-c", "core.fsmonitor=false", "status", "--porcelain")
    assert mark.exists()


def test_a_missing_object_is_not_fetched(repository: Path) -> None:
    (repository / "train.py").write_text("22\n")
    tree = git(repository, "rev-parse", "HEAD^{tree}").strip()
    (repository / ".git/objects" / tree[:2] / tree[2:]).unlink()
    mark = repository.parent / "was-run"
    _set_programs(repository, mark, "config")
    mark.unlink(missing_ok=True)
    assert commit(repository)[40:] == "?"
    assert not mark.exists()


def test_a_mode_that_the_repository_does_not_keep_is_no_change(repository: Path) -> None:
    git(repository, "config", "core.filemode", "false")
    (repository / "train.py").chmod(0o755)
    assert commit(repository)[40:] == ""


def test_a_line_end_that_git_converts_is_no_change(repository: Path) -> None:
    git(repository, "config", "core.autocrlf", "true")
    (repository / "train.py").write_bytes(b"6\r\n")
    git(repository, "commit", "-q", "-a", "-m", "two")
    os.utime(repository / "train.py", (1, 1))
    assert commit(repository)[40:] == ""


def test_a_worktree_of_a_repository_has_its_own_commit(repository: Path, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "-q", str(tmp_path / "second"))
    second = tmp_path / "second"
    (second / "train.py").write_text("5\n")
    assert commit(second)[40:] == "+"
    git(second, "commit", "-q", "-a", "-m", "two")
    assert commit(second) == git(second, "rev-parse", "HEAD").strip() != commit(repository)
    (second / "below").mkdir()
    assert commit(second / "below", GIT_CEILING_DIRECTORIES=str(tmp_path)) == commit(second)


def test_a_repository_of_sha256_is_understood(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    git(folder, "init", "-q", "--object-format=sha256")
    (folder / "train.py").write_text("1\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "one")
    assert len(commit(folder)) == 64
    (folder / "train.py").write_text("22\n")
    assert commit(folder)[64:] == "+"


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
