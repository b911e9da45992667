"""Logs of more blocks than one: while one is shown, the next is on its way."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from jobgen.app import jobs, logs
from jobgen.app.prepare import prepare
from jobgen.app.submit import submit
from jobgen.app.world import World
from jobgen.follow import Lines, View
from tests.app.conftest import Link

LONG = [str(n) for n in range(1, 20001)]
VIEW = View(ranks=(range(1),), stream="out")


@pytest.fixture
def run(world: World, job: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> str:
    """A run that has ended and left a log of many blocks."""
    record = submit(world, prepare(world, job(f"seq 1 {len(LONG)}"), "here"))
    jobs.wait(world, [record.alias])
    monkeypatch.setattr(logs, "BLOCK", 10_000)
    return record.alias


def texts(items: Iterable[Lines | logs.Event]) -> list[str]:
    return [text for item in items if isinstance(item, Lines) for text in item.texts()]


def test_every_line_is_shown_once_and_in_order(world: World, link: Link, run: str) -> None:
    before = len(link.sent)
    assert texts(logs.show(world, run, VIEW)) == LONG
    assert len(link.sent) - before > 5
    assert texts(logs.follow(world, run, VIEW)) == LONG


def test_a_block_that_is_lost_on_its_way_is_asked_for_again(
    world: World, link: Link, run: str
) -> None:
    quick = World(
        world.environ, world.cwd, world.home, say=world.say, dial=world.dial, sleep=lambda _: None
    )
    seen: list[str] = []
    events: list[str] = []
    for item in logs.follow(quick, run, VIEW):
        if isinstance(item, Lines):
            seen += item.texts()
            link.cut = not events
        else:
            events.append(item.kind)
            link.cut = False
    assert seen == LONG
    assert events[:2] == ["lost", "back"]


def test_who_has_seen_enough_is_let_go(world: World, run: str) -> None:
    shown = logs.show(world, run, VIEW)
    assert next(shown).texts()[0] == "1"
    shown.close()  # type: ignore[attr-defined]
