"""Offline runs of W&B come here with pull, and the wandb of this machine uploads them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from jobgen.app.pulling import Pulled, PullRequest, pull
from jobgen.app.wandb_sync import list_offline_runs
from jobgen.app.world import World
from jobgen.cli.screens.pull import screen
from jobgen.errors import JobgenError, Missing
from jobgen.model.record import Login, RunRecord, Site
from jobgen.transport.fetch import RemoteFile

SITE = Site("here", "local", Login("local"), "/runs")
FIRST = "track/wandb/offline-run-20261126_135257-abc/run-abc.wandb"
SECOND = "track/wandb/offline-run-20261126_135257-abc-1/run-abc.wandb"
# marks what it is given as synced, which the real one does once the server has it
WANDB = """#!/bin/sh
printf '%s\\n' "$@" >>"$HOME/calls"
shift
for folder; do [ ! -e "$HOME/fails" ] || exit 3; touch "$folder/run-abc.wandb.synced"; done
echo uploaded
"""


@pytest.fixture
def record(world: World, tmp_path: Path) -> RunRecord:
    """A run whose program was started twice."""
    for path in (FIRST, SECOND):
        file = tmp_path / "run" / "src" / path
        file.parent.mkdir(parents=True)
        file.write_bytes(path.encode())
    record = RunRecord("t" * 26, "llama", "llama", SITE, "0", 1.0, str(tmp_path / "run"))
    return world.ledger.begin(record)


@pytest.fixture
def equipped(world: World) -> World:
    """A machine with a wandb."""
    program = world.home / "bin" / "wandb"
    program.parent.mkdir()
    program.write_text(WANDB)
    program.chmod(0o755)
    path = f"{program.parent}:{world.environ['PATH']}"
    return replace(world, environ={**world.environ, "PATH": path})


def sync(world: World, record: RunRecord, folder: Path, *, dry_run: bool = False) -> Pulled:
    return pull(world, PullRequest(record.alias, folder=folder, dry_run=dry_run, sync=True))


def list_calls(world: World) -> list[str]:
    file = world.home / "calls"
    return file.read_text().splitlines() if file.exists() else []


def test_all_starts_of_a_run_are_uploaded_in_their_order_and_once(
    equipped: World, record: RunRecord, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    here = tmp_path / "here"
    found = sync(equipped, record, here)
    assert found.synced == (FIRST, SECOND)
    folders = [str((here / path).parent) for path in (FIRST, SECOND)]
    assert list_calls(equipped) == ["sync", *folders]
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "uploaded\n")
    assert screen(found, dry_run=False, verbose=False).endswith("W&B: synced 2 offline runs\n")
    assert sync(equipped, record, here).synced == ()
    assert list_calls(equipped) == ["sync", *folders]


def test_a_run_that_has_grown_is_uploaded_again(
    equipped: World, record: RunRecord, tmp_path: Path
) -> None:
    here = tmp_path / "here"
    sync(equipped, record, here)
    (tmp_path / "run" / "src" / SECOND).write_bytes(b"more of it")
    # without --sync, this copies the file, which must not stay marked
    pull(equipped, PullRequest(record.alias, ("track/",), here))
    assert sync(equipped, record, here).synced == (SECOND,)


def test_a_dry_run_lists_them_and_uploads_nothing(
    equipped: World, record: RunRecord, tmp_path: Path
) -> None:
    found = sync(equipped, record, tmp_path / "here", dry_run=True)
    shown = screen(found, dry_run=True, verbose=False)
    assert "would sync 2 offline runs:\n  track/wandb/offline-run-20261126_135257-abc\n" in shown
    assert list_calls(equipped) == []
    assert not (tmp_path / "here").exists()


def test_a_failed_upload_is_an_error_and_is_tried_again(
    equipped: World, record: RunRecord, tmp_path: Path
) -> None:
    (equipped.home / "fails").touch()
    with pytest.raises(JobgenError, match="exit code 3") as caught:
        sync(equipped, record, tmp_path / "here")
    assert "bin/wandb sync " in caught.value.problems[0].hint
    (equipped.home / "fails").unlink()
    assert sync(equipped, record, tmp_path / "here").synced == (FIRST, SECOND)


def test_without_wandb_nothing_is_copied(world: World, record: RunRecord, tmp_path: Path) -> None:
    bare = replace(world, environ={**world.environ, "PATH": str(tmp_path)})
    with pytest.raises(Missing, match="wandb is not installed on this machine"):
        sync(bare, record, tmp_path / "here")
    assert not (tmp_path / "here").exists()


def test_a_run_without_offline_data_says_so(equipped: World, tmp_path: Path) -> None:
    (tmp_path / "other" / "src").mkdir(parents=True)
    other = RunRecord("u" * 26, "plain", "plain", SITE, "0", 1.0, str(tmp_path / "other"))
    record = equipped.ledger.begin(other)
    found = sync(equipped, record, tmp_path / "here")
    assert found.synced == ()
    assert "W&B: no offline run to sync" in screen(found, dry_run=False, verbose=False)


@pytest.mark.parametrize(
    ("path", "known"),
    [
        (FIRST, True),
        (SECOND, True),
        ("wandb/offline-run-20261126_135257-a-1/run-a-1.wandb", True),
        ("offline-run-20261126_135257-abc/run-abc.wandb", True),
        ("wandb/offline-run-20261126_135257-abc/run-other.wandb", False),
        ("wandb/offline-run-20261126_135257---x=1/run---x=1.wandb", False),
        ("wandb/offline-run-20261126_135257-$(id)/run-$(id).wandb", False),
        ("wandb/run-20261126_135257-abc/run-abc.wandb", False),
        ("wandb/offline-run-20261126_135257-abc/files/run-abc.wandb", False),
    ],
)
def test_only_names_that_wandb_gives_are_handed_to_it(path: str, *, known: bool) -> None:
    assert list_offline_runs([RemoteFile(path, 1, 1.0)]) == ((path,) if known else ())
