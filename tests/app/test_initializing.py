"""``init`` on real folders: what is listed, what is never read, run, followed or replaced."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from jobgen.app.initializing import (
    LARGEST,
    MOST_FILES,
    MOST_TEXTS,
    list_folder,
    survey_folder,
    write_files,
)
from jobgen.app.world import World
from jobgen.errors import CheckFailed, Usage

PROGRAM = "import torch.distributed\n"


@pytest.fixture
def world(tmp_path: Path) -> World:
    folder = tmp_path / "llm"
    folder.mkdir()
    return World(environ={}, cwd=folder, home=tmp_path)


def test_a_folder_is_listed_one_level_deep(world: World) -> None:
    for name in ("train.py", "src/model.py", "src/deep/more.py", ".git/config.json", ".venv/a.py"):
        path = world.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PROGRAM)
    (world.cwd / ".venv" / "pyvenv.cfg").touch()
    (world.cwd / "conda" / "conda-meta").mkdir(parents=True)
    listing = list_folder(world.cwd)
    assert listing.name == "llm"
    assert listing.files == ("train.py", "src/model.py")
    assert listing.venvs == (".venv", "conda")
    assert listing.texts == {"train.py": PROGRAM, "src/model.py": PROGRAM}


def test_no_code_of_the_folder_is_run(world: World) -> None:
    mark = world.cwd / "was-run"
    evil = f"import torch.distributed\nopen({str(mark)!r}, 'w')\n"
    for name in ("train.py", "setup.py", "sitecustomize.py", "torch.py", "ast.py", "json.py"):
        (world.cwd / name).write_text(evil)
    project = survey_folder(world, Path())
    assert project.programs[0].path == "train.py"
    assert not mark.exists()


def test_hostile_files_are_passed_over(world: World, tmp_path: Path) -> None:
    secret = tmp_path / "secret.py"
    secret.write_text("import lightning\n")
    here = world.cwd
    (here / "train.py").write_bytes(b"\xef\xbb\xbf" + PROGRAM.encode())
    (here / "link.py").symlink_to(secret)
    (here / "loop.py").symlink_to("loop.py")
    (here / "out").symlink_to(tmp_path)
    (here / "binary.py").write_bytes(bytes(range(256)) * 4)
    (here / "utf16.py").write_bytes(PROGRAM.encode("utf-16"))
    (here / "latin.py").write_bytes(b"# caf\xe9\nimport deepspeed\n")
    (here / "huge.py").write_text("import lightning\n" * (LARGEST // 10))
    (here / "sparse.json").touch()
    os.truncate(here / "sparse.json", 1 << 40)
    (here / "wrong.py").write_text("def f(:\n")
    (here / "deep.py").write_text("(" * 100_000)
    os.mkfifo(here / "pipe.py")
    (here / os.fsdecode(b"na\xffme.py")).write_text(PROGRAM)
    (here / "line\nbreak.py").write_text(PROGRAM)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(here / "s.py"))
    project = survey_folder(world, Path())
    kinds = {program.path: program.kind for program in project.programs}
    assert kinds == {"train.py": "torch-distributed", "latin.py": "deepspeed"}


def test_a_large_folder_is_read_in_part(world: World) -> None:
    for number in range(MOST_FILES + 5):
        (world.cwd / f"n{number:05}.py").touch()
        if number < MOST_TEXTS + 5:
            (world.cwd / f"n{number:05}.py").write_text("1\n")
    listing = list_folder(world.cwd)
    assert (len(listing.files), listing.truncated) == (MOST_FILES, True)
    assert len(listing.texts) <= MOST_TEXTS


def test_a_folder_that_is_none_is_refused(world: World) -> None:
    (world.cwd / "file").touch()
    for name in ("gone", "file"):
        with pytest.raises(Usage, match=name):
            survey_folder(world, Path(name))


def test_a_folder_that_is_never_uploaded_is_refused(world: World) -> None:
    (world.home / "train.py").write_text(PROGRAM)
    (world.home / ".ssh").mkdir()
    (world.cwd / "train.py").write_text(PROGRAM)
    with pytest.raises(CheckFailed, match="home directory"):
        survey_folder(world, world.home)
    (world.cwd / ".aws").mkdir()
    with pytest.raises(CheckFailed, match="where keys are kept"):
        survey_folder(world, Path())
    assert survey_folder(world, Path(), dry=True).programs


def test_job_yaml_is_never_replaced(world: World) -> None:
    job = world.cwd / "job.yaml"
    job.write_text("mine\n")
    for act in (
        lambda: survey_folder(world, Path()),
        lambda: write_files(world, Path(), "name: a\n"),
    ):
        with pytest.raises(Usage, match=r"job\.yaml exists"):
            act()
    assert job.read_text() == "mine\n"


def test_a_link_named_job_yaml_is_not_written_through(world: World, tmp_path: Path) -> None:
    (world.cwd / "job.yaml").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Usage, match="exists"):
        write_files(world, Path(), "name: a\n")
    assert not (tmp_path / "elsewhere").exists()


def test_a_schema_that_is_there_stays(world: World) -> None:
    (world.cwd / "job.schema.json").write_text("mine")
    written = write_files(world, Path(), "name: a\n")
    assert written == ("job.yaml", "", "jobgen plan")
    assert (world.cwd / "job.schema.json").read_text() == "mine"


def test_the_next_command_names_a_job_elsewhere(world: World) -> None:
    (world.cwd / "sub dir").mkdir()
    written = write_files(world, Path("sub dir"), "name: a\n")
    assert written.next == "jobgen plan 'sub dir/job.yaml'"
    assert written.schema == "sub dir/job.schema.json"
