"""What is read of a working directory to find a word: safely, and only so much."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jobgen.app import workdir_files
from jobgen.app.linting import lint
from jobgen.app.prepare import prepare
from jobgen.app.workdir_files import find_word
from jobgen.app.world import World
from jobgen.upload import scan
from tests.app.test_prepare import Job

WORD = b"JOBGEN_STOP_FILE"


def find(root: Path) -> bool | None:
    return find_word(scan(root), WORD)


def test_a_file_of_any_kind_counts(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print()")
    assert find(tmp_path) is False
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "x.yaml").write_bytes(b"\xff stop: ${oc.env:JOBGEN_STOP_FILE}")
    assert find(tmp_path) is True


def test_a_large_file_is_data_and_not_read(tmp_path: Path) -> None:
    with (tmp_path / "weights").open("wb") as file:
        file.write(WORD)
        file.truncate(workdir_files.LARGEST + 1)
    assert find(tmp_path) is False


def test_beyond_a_limit_nothing_is_claimed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        (tmp_path / f"{number}.py").write_text("x" * 100)
    monkeypatch.setattr(workdir_files, "MOST", 250)
    assert find(tmp_path) is None


@pytest.mark.parametrize("change", ["link", "pipe", "gone"])
def test_what_became_something_else_since_it_was_listed_is_not_followed(
    tmp_path: Path, change: str
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(WORD)
    path = tmp_path / "work" / "train.py"
    path.parent.mkdir()
    path.write_bytes(WORD)
    manifest = scan(path.parent)
    assert find_word(manifest, WORD) is True
    path.unlink()
    if change == "link":
        path.symlink_to(secret)
    elif change == "pipe":
        os.mkfifo(path)
    assert find_word(manifest, WORD) is None


def test_only_a_job_that_is_asked_to_stop_has_its_files_read(world: World, job: Job) -> None:
    path = job("train.py", "checkpoint: {grace: 1m, requeue: true}")
    (path.parent / "train.py").write_text("print()")
    ready = prepare(world, path, "here")
    assert ready.facts.stop_file_named is False
    assert [check.code for check in ready.plan.checks if check.status == "warn"] == ["J257"]
    for cluster in (None, "here"):
        assert [problem.code for problem in lint(world, [path], cluster)[0].problems] == ["J257"]
    (path.parent / "train.py").write_text("os.environ['JOBGEN_STOP_FILE']")
    assert lint(world, [path])[0].problems == ()
    assert prepare(world, path, "here").facts.stop_file_named is True
    assert prepare(world, job("train.py"), "here").facts.stop_file_named is None
