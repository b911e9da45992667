"""What a run was submitted from is kept in its run directory, and never what is not uploaded."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from jobgen import __version__
from jobgen.app import jobs, provenance
from jobgen.app.code_changes import LARGEST, read_changes
from jobgen.app.prepare import prepare
from jobgen.app.submit import submit
from jobgen.app.world import World
from jobgen.cli.output import Ink
from jobgen.cli.screens import jobs as screens
from jobgen.cli.screens.job_data import dump_run
from jobgen.model.origin import read_environment, read_origin
from jobgen.upload import scan
from tests.git import SETTINGS, git

TOKEN = "hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZabcdefgh"


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy this machine is, git gets the time that it needs."""
    monkeypatch.setattr(provenance, "_SECONDS", 300)


@pytest.fixture
def repository(world: World) -> Path:
    """The home of the test's world, with a committed program below src/."""
    top = world.cwd
    (top / "src" / "train.py").write_text("print('one')\n")
    (top / "src" / "gone.py").write_text("secret = 'of the commit'\n")
    (top / "src" / ".env").write_text("KEY=committed\n")
    (top / "outside.txt").write_text("one\n")
    git(top, "init", "-q")
    git(top, "add", "-f", "src", "outside.txt")
    git(top, "commit", "-qm", "all")
    return top


@pytest.fixture
def git_world(world: World) -> World:
    return replace(world, environ={**world.environ, **SETTINGS})


def test_the_patch_has_what_is_uploaded_and_nothing_else(
    repository: Path, git_world: World
) -> None:
    source = repository / "src"
    (source / "train.py").write_text("print('two')\n")
    (source / ".env").write_text("KEY=changed\n")
    (source / "new.py").write_text("")
    (source / "gone.py").unlink()
    (repository / "outside.txt").write_text("two\n")
    changes = read_changes(source, scan(source), git_world.environ)
    assert (changes.commit, changes.mark) == (git(repository, "rev-parse", "HEAD").strip(), "+")
    assert (changes.prefix, changes.changed) == ("src", ("src/train.py",))
    assert (changes.deleted, changes.untracked) == (("src/gone.py",), ("src/new.py",))
    assert changes.omitted == ("src/.env",)
    for text in (b"KEY", b"secret", b"outside"):
        assert text not in changes.patch
    git(repository, "checkout", "-q", "src/train.py")
    (repository / "kept.patch").write_bytes(changes.patch)
    git(repository, "apply", "kept.patch")
    assert (source / "train.py").read_text() == "print('two')\n"


@pytest.mark.parametrize("removed", [False, True])
def test_a_patch_that_shows_a_token_is_not_kept(
    repository: Path, git_world: World, removed: bool
) -> None:
    source = repository / "src"
    if removed:
        (source / "train.py").write_text(f"token = '{TOKEN}'\n")
        git(repository, "commit", "-qam", "a token")
        (source / "train.py").write_text("token = ''\n")
    else:
        (source / "train.py").write_text(f"token = '{TOKEN}'\n")
    changes = read_changes(source, scan(source), git_world.environ)
    assert (changes.patch, changes.changed, changes.omitted) == (b"", (), ("src/train.py",))


def test_a_large_file_is_named_and_not_kept(repository: Path, git_world: World) -> None:
    source = repository / "src"
    (source / "train.py").write_bytes(os.urandom(LARGEST + 1))
    (source / "gone.py").write_text("small\n")
    changes = read_changes(source, scan(source), git_world.environ)
    assert (changes.changed, changes.omitted) == (("src/gone.py",), ("src/train.py",))


def test_outside_git_there_is_no_commit(world: World) -> None:
    changes = read_changes(world.cwd / "src", scan(world.cwd / "src"), world.environ)
    assert (changes.commit, changes.patch, changes.untracked) == ("", b"", ())


def test_the_run_directory_keeps_what_was_submitted(
    repository: Path, git_world: World, job: Callable[..., Path]
) -> None:
    path = job("python3 train.py")
    (path.parent / "train.py").write_text("print('two')\n")
    (path.parent / "train.py").chmod(0o755)
    (path.parent / "link").symlink_to("train.py")
    record = submit(git_world, prepare(git_world, path, "here", ["time=7m"]))
    kept = Path(record.directory, "provenance")
    assert {file.name: file.stat().st_mode & 0o777 for file in kept.iterdir()} == {
        "submission.json": 0o600,
        "changes.patch": 0o600,
    }
    assert b"+print('two')" in (kept / "changes.patch").read_bytes()
    origin = read_origin((kept / "submission.json").read_text())
    assert origin is not None
    assert (origin.jobgen, origin.label, origin.folder) == (__version__, "src/job.yaml", ".")
    assert (origin.job, origin.sets, origin.cluster) == (path.read_text(), ("time=7m",), "here")
    assert list(origin.profile.values()) == [
        (git_world.config / "clusters" / "here.yaml").read_text()
    ]
    assert (origin.links, origin.executables) == ({"link": "train.py"}, ("train.py",))
    assert record.shape["git"] == f"{origin.commit}+"
    assert str(git_world.home) not in (kept / "submission.json").read_text().replace(
        json.dumps(str(git_world.home.parent / "root")), ""
    ).replace(str(git_world.home.parent / "root"), "")


def test_a_job_records_its_environment_and_show_has_it(
    world: World, job: Callable[..., Path]
) -> None:
    path = job("python3 -c 'print(1)'", "env: {LOADEDMODULES: 'gcc/12:cuda/12.4'}")
    record = submit(world, prepare(world, path, "here"))
    (record,) = jobs.wait(world, [record.alias])
    assert str(record.state) == "COMPLETED"
    view = jobs.show(world, record.alias, every=True)
    assert view.kept is not None
    environment = view.kept.environment
    assert environment is not None
    assert environment.modules == ("gcc/12", "cuda/12.4")
    assert Path(environment.executable).name.startswith("python3")
    text = screens.draw_run(view, world.now(), Ink(colour=False, width=100), verbose=True)
    lines = text[text.index("Provenance") :].split("\n")
    assert lines[1].split(maxsplit=1) == [
        "code",
        "no git repository; the run directory has the files",
    ]
    assert ["modules", "gcc/12 cuda/12.4"] in [line.split(maxsplit=1) for line in lines if line]
    data = dump_run(view)["provenance"]
    assert data["code"]["jobgen"] == __version__
    assert data["environment"]["python"] == environment.python
    assert jobs.show(world, record.alias).kept is None


def test_a_run_of_an_older_version_has_no_provenance(
    world: World, job: Callable[..., Path]
) -> None:
    record = submit(world, prepare(world, job("true"), "here"))
    jobs.wait(world, [record.alias])
    for path in (*Path(record.directory).glob("state/*/environment.*"),):
        path.unlink()
    (Path(record.directory) / "provenance/submission.json").unlink()
    view = jobs.show(world, record.alias, every=True)
    text = screens.draw_run(view, world.now(), Ink(colour=False, width=100), verbose=True)
    assert "not recorded" in text


@pytest.mark.parametrize("text", ["", "[]", "{", '{"v": 2}', '{"v": 1}', "[" * 100_000])
def test_a_damaged_record_is_no_record(text: str) -> None:
    assert read_origin(text) is None
    assert read_environment(text) is None


def test_values_of_other_types_are_passed_over() -> None:
    data = {"v": 1, "jobgen": "1", "label": 3, "sets": ["a", 4], "links": {"a": 1, "b": "c"}}
    origin = read_origin(json.dumps(data))
    assert origin is not None
    assert (origin.label, origin.sets, origin.links) == ("", ("a",), {"b": "c"})
