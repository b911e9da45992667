from __future__ import annotations

from pathlib import Path

import pytest

from jobgen.app.upload_safety import KEYS, find_leaks, refuse_workdir
from jobgen.app.world import World
from jobgen.errors import Place
from jobgen.upload import Rules, scan

TOKEN = "hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZabcdefgh"
JOB = Place("job.yaml", 3)


@pytest.fixture
def world(tmp_path: Path) -> World:
    (tmp_path / "home").mkdir()
    work = tmp_path / "home" / "work"
    work.mkdir()
    return World(environ={}, cwd=work, home=tmp_path / "home")


def test_each_line_with_a_token_is_named_and_the_token_is_not(world: World) -> None:
    (world.cwd / "pkg").mkdir()
    (world.cwd / "pkg" / "train.py").write_text(
        f"import os\n\nlogin('{TOKEN}')\nlogin('{TOKEN}')\n"
    )
    leaks = find_leaks(world, scan(world.cwd))
    assert [str(leak.place) for leak in leaks] == ["pkg/train.py:3", "pkg/train.py:4"]
    assert all(leak.code == "J197" and "Hugging Face" in leak.message for leak in leaks)
    assert TOKEN not in str(leaks)


def test_a_file_that_a_rule_names_is_uploaded_whatever_it_holds(world: World) -> None:
    (world.cwd / "fixture.py").write_text(TOKEN)
    (leak,) = find_leaks(world, scan(world.cwd))
    assert "'!fixture.py'" in leak.hint
    assert not find_leaks(world, scan(world.cwd, Rules(ignore=("!fixture.py",))))


@pytest.mark.parametrize(
    "content", [b"\0" + TOKEN.encode(), TOKEN.encode() + bytes(1 << 20)], ids=["binary", "large"]
)
def test_data_is_not_searched(world: World, content: bytes) -> None:
    (world.cwd / "data.bin").write_bytes(content)
    assert not find_leaks(world, scan(world.cwd))


@pytest.mark.parametrize("order", ["utf-16-le", "utf-16-be"])
def test_a_text_of_windows_is_searched(world: World, order: str) -> None:
    (world.cwd / "key.txt").write_bytes(f"\ufeff# mine\r\n{TOKEN}\r\n".encode(order))
    (problem,) = find_leaks(world, scan(world.cwd))
    assert problem.place
    assert problem.place.line == 2


def test_what_becomes_a_file_of_the_job_is_searched_though_it_is_not_uploaded(
    world: World,
) -> None:
    (world.cwd / ".jobgenignore").write_text("ds.json\n")
    text = f'{{"wandb": "{TOKEN}"}}'.encode()
    (world.cwd / "ds.json").write_bytes(text)
    (problem,) = find_leaks(world, scan(world.cwd), {"ds.json": text})
    assert problem.place
    assert problem.place.file.endswith("ds.json")
    (world.cwd / ".jobgenignore").unlink()
    assert len(find_leaks(world, scan(world.cwd), {"ds.json": text})) == 1


def test_ten_lines_are_enough(world: World) -> None:
    (world.cwd / "many.txt").write_text(f"{TOKEN}\n" * 1000)
    assert len(find_leaks(world, scan(world.cwd))) == 10


def test_a_directory_for_a_program_may_be_uploaded(world: World) -> None:
    assert refuse_workdir(world, world.cwd, JOB) is None


@pytest.mark.parametrize("where", [".", "..", "/"])
def test_a_home_directory_is_not_uploaded(world: World, where: str) -> None:
    problem = refuse_workdir(world, (world.home / where).resolve(), JOB)
    assert problem
    assert problem.place == JOB
    assert "home directory" in problem.message


@pytest.mark.parametrize("name", KEYS)
def test_a_directory_of_keys_is_not_uploaded_nor_one_around_or_in_it(
    world: World, name: str
) -> None:
    inner = world.cwd / "project" / name / "deep"
    inner.mkdir(parents=True)
    for folder in (inner, inner.parent, inner.parent.parent):
        problem = refuse_workdir(world, folder, JOB)
        assert problem
        assert name in problem.message


@pytest.mark.parametrize("path", [".docker", ".config/gh", ".config/gcloud/x", ".password-store"])
def test_a_directory_whose_own_name_says_that_it_holds_secrets_is_not_uploaded(
    world: World, path: str
) -> None:
    (world.home / path).mkdir(parents=True)
    assert refuse_workdir(world, world.home / path, JOB)
