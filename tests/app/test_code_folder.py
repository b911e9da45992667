"""Code that stays on the cluster: nothing is uploaded, and its commit is recorded and compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from jobgen.app import jobs
from jobgen.app.code_folder import compare_code
from jobgen.app.prepare import prepare
from jobgen.app.pulling import PullRequest, pull
from jobgen.app.reproducing import prepare_reproduction
from jobgen.app.submit import submit
from jobgen.app.world import World
from jobgen.cli.screens.origin import describe_code_folder
from jobgen.errors import JobgenError, Missing
from jobgen.model.events import CodeRecord
from jobgen.model.record import RunRecord
from tests.git import SETTINGS, git

PROGRAM = "cat part.txt; pwd; cp part.txt result.csv"


@pytest.fixture
def world(world: World) -> World:
    """Git of no settings."""
    return replace(world, environ={**world.environ, **SETTINGS})


@pytest.fixture
def code(world: World) -> Path:
    """A checkout outside of the job's folder."""
    folder = world.home / "a checkout"
    folder.mkdir()
    (folder / "part.txt").write_text("there\n")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    return folder


def start(world: World, path: Path) -> RunRecord:
    record = submit(world, prepare(world, path, "here"), about={"file": str(path)})
    return jobs.wait(world, [record.alias])[0]


def list_differences(world: World, record: RunRecord) -> list[str]:
    with prepare_reproduction(world, record.alias, None) as found:
        return [text for text in found.differences if "commit" in text]


def test_the_program_runs_where_its_code_is_and_the_commit_is_recorded(
    world: World, code: Path, job: Callable[..., Path]
) -> None:
    path = job(PROGRAM, f"workdir: {{at: {code}}}", "outputs: ['*.csv']")
    (path.parent / "part.txt").write_text("here\n")
    record = start(world, path)
    output = Path(record.directory, "logs/0/0/rank0.out").read_text()
    assert output == f"there\n{code}\n"
    assert [*Path(record.directory, "src").iterdir()] == []
    head = git(code, "rev-parse", "HEAD").strip()
    assert [(c.start, c.at, c.commit, c.changed) for c in record.codes] == [(1, str(code), head, 0)]
    assert describe_code_folder(record) == f"{code}, {head[:12]}"
    pulled = pull(world, PullRequest(record.alias, folder=world.home / "out"))
    assert [file.path for file in pulled.matched] == ["result.csv"]
    assert (world.home / "out/result.csv").read_text() == "there\n"


def test_reproduce_names_what_changed_in_the_directory_since(
    world: World, code: Path, job: Callable[..., Path]
) -> None:
    path = job(PROGRAM, f"workdir: {{at: {code}}}")
    first = start(world, path)
    assert list_differences(world, first) == []
    (code / "part.txt").write_text("changed\n")
    differ = f"uncommitted changes in {code} differ"
    assert list_differences(world, first) == [f"{differ}: 0 files then, 1 file now"]
    second = start(world, path)
    assert describe_code_folder(second).endswith(", 1 file changed")
    assert list_differences(world, second) == []
    (code / "part.txt").write_text("changed again\n")
    assert list_differences(world, second) == [f"{differ}: 1 file then, 1 file now"]
    before = git(code, "rev-parse", "HEAD").strip()
    git(code, "commit", "-qam", "two")
    now = git(code, "rev-parse", "HEAD").strip()
    words = f"the commit of {code} was {before[:12]}, and is {now[:12]}"
    assert list_differences(world, second) == [words]
    code.rename(code.with_name("elsewhere"))
    with pytest.raises(Missing, match="there is no directory"):
        list_differences(world, second)


@pytest.mark.parametrize(
    ("folder", "message"),
    [("/no/such/place", "there is no directory /no/such/place on "), ("$NOWHERE/x", "$NOWHERE is")],
)
def test_nothing_is_submitted_without_the_directory(
    world: World, job: Callable[..., Path], folder: str, message: str
) -> None:
    ready = prepare(world, job(PROGRAM, f"workdir: {{at: {folder}}}"), "here")
    with pytest.raises(JobgenError) as caught:
        submit(world, ready)
    assert message in str(caught.value)
    assert "workdir.at" in caught.value.problems[0].hint


def test_code_outside_git_is_not_compared() -> None:
    here = CodeRecord(1, "/code", "")
    assert [*compare_code(None, here)] == ["the commit of /code was not recorded"]
    texts = [*compare_code(here, here._replace(commit="3f2a"))]
    assert texts == ["/code is not in git, so its changes are unknown"]
