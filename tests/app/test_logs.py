"""Logs of several blocks, and logs that cannot be read whole."""

from __future__ import annotations

import collections
import datetime as dt
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobgen.app import jobs, log_tail, logs
from jobgen.app.cancelling import cancel
from jobgen.app.prepare import prepare
from jobgen.app.submit import submit
from jobgen.app.world import World
from jobgen.follow import Lines, View
from jobgen.follow.timestamps import format_clock
from jobgen.model.record import RunRecord
from tests.app.conftest import Link

LONG = [str(n) for n in range(1, 20001)]
VIEW = View(ranks=(range(1),), stream="out")


@pytest.fixture
def run(world: World, job: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> str:
    """A run that has ended and left a log of many blocks."""
    record = submit(world, prepare(world, job(f"seq 1 {len(LONG)}"), "here"))
    jobs.wait(world, [record.alias])
    monkeypatch.setattr(log_tail, "BLOCK", 10_000)
    return record.alias


def texts(items: Iterable[Lines | logs.StreamEvent]) -> list[str]:
    return [text for item in items if isinstance(item, Lines) for text in item.list_texts()]


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
            seen += item.list_texts()
            link.cut = not events
        else:
            events.append(item.kind)
            link.cut = False
    assert seen == LONG
    assert events[:2] == ["lost", "back"]


def test_who_has_seen_enough_is_let_go(world: World, run: str) -> None:
    shown = logs.show(world, run, VIEW)
    assert next(shown).list_texts()[0] == "1"
    shown.close()  # type: ignore[attr-defined]


@pytest.fixture
def ranks(world: World, job: Callable[..., Path]) -> RunRecord:
    """A run of two ranks that has ended; each printed one line."""
    record = submit(world, prepare(world, job('echo "rank $RANK"', "procs_per_node: 2"), "here"))
    return jobs.wait(world, [record.alias])[0]


SHOWN: Mapping[str, Callable[[World, str], Iterable[Lines | logs.StreamEvent]]] = {
    "logs": lambda world, ref: logs.show(world, ref, View()),
    "logs -n": lambda world, ref: logs.show(world, ref, View(lines=5)),
    "logs -f": lambda world, ref: logs.follow(world, ref, View()),
}


def test_a_file_that_cannot_be_read_is_an_error_after_all_others(
    world: World, ranks: RunRecord, breaks: Callable[..., None]
) -> None:
    breaks("dd", "if=*.1.out")
    for shown in SHOWN.values():
        items: list[Lines | logs.StreamEvent] = []
        with pytest.raises(log_tail.Unread, match=r"\.1\.out: broken"):
            items.extend(shown(world, ranks.alias))
        assert texts(items) == ["rank 0"]


def test_a_look_that_fails_once_is_repeated(
    world: World, ranks: RunRecord, breaks: Callable[..., None]
) -> None:
    for tool, words in [("awk", "*"), ("find", "*"), ("dd", "if=*")]:
        for name, shown in SHOWN.items():
            breaks(tool, words, times=1)
            assert sorted(texts(shown(world, ranks.alias))) == ["rank 0", "rank 1"], (tool, name)


def test_a_run_directory_that_is_gone_is_an_error(world: World, ranks: RunRecord) -> None:
    Path(ranks.directory).rename(f"{ranks.directory}.away")
    for shown in SHOWN.values():
        with pytest.raises(log_tail.Unread, match="No such file or directory"):
            texts(shown(world, ranks.alias))


def test_what_is_not_asked_for_may_be_unreadable(
    world: World, ranks: RunRecord, breaks: Callable[..., None]
) -> None:
    breaks("dd", "if=*.1.out")
    assert texts(logs.show(world, ranks.alias, View(ranks=(range(1),)))) == ["rank 0"]


def test_following_goes_on_while_a_look_fails(
    world: World, job: Callable[..., Path], breaks: Callable[..., None], tmp_path: Path
) -> None:
    go_on = tmp_path / "go-on"
    script = f"echo one; until [ -e {go_on} ]; do sleep 0.1; done; echo two"
    record = submit(world, prepare(world, job(script), "here"))
    breaks("awk", "*", times=2 * log_tail.TRIES)
    items = []
    for item in logs.follow(world, record.alias, View()):
        items.append(item)
        if texts([item]):
            go_on.touch()
    assert texts(items) == ["one", "two"]
    events = [item.kind for item in items if isinstance(item, logs.StreamEvent)]
    assert events.count("unread") == 1


def test_a_line_waits_for_a_look_and_its_equals_and_for_no_question_beside(
    world: World, job: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = tmp_path / "go-on"
    script = f"echo one; until [ -e {go_on} ]; do sleep 0.1; done"
    record = submit(world, prepare(world, job(script, "procs_per_node: 2"), "here"))
    file = Path(record.directory) / "logs" / "0" / "0" / "local1.0.out"
    clock, written, shown = time.time(), 0.0, 0.0

    def sleep(seconds: float) -> None:
        nonlocal clock, written
        if shown and not written:
            written = clock
            with file.open("a") as log:
                log.write("two\n")
        time.sleep(0.01)
        clock += seconds + 0.001  # no clock stands still, also where nothing is left to wait

    def observe(*words: Any) -> Any:
        nonlocal clock
        clock += 0.4  # a controller takes its time
        return ask(*words)

    ask = jobs.observe
    monkeypatch.setattr(jobs, "observe", observe)
    patient = replace(world, now=lambda: clock, sleep=sleep)
    for item in logs.follow(patient, record.alias, View()):
        if {"one", "two"}.intersection(texts([item])):
            shown = clock
        if "two" in texts([item]):
            go_on.touch()
    assert written < shown < written + logs.POLL + View().window + 0.01


def test_no_output_is_reported_with_the_state_of_the_job(
    world: World, job: Callable[..., Path], ranks: RunRecord
) -> None:
    silent = submit(world, prepare(world, job("sleep 60"), "here"))
    (item,) = logs.show(world, silent.alias, View())
    assert isinstance(item, logs.StreamEvent)
    assert item.kind == "empty"
    assert item.text.startswith(f"{silent.alias}: no output yet; the job is ")
    (item,) = logs.show(world, ranks.alias, View(ranks=(range(7, 8),)))
    assert isinstance(item, logs.StreamEvent)
    assert item.text == f"{ranks.alias}: no output for these options; the job is COMPLETED"
    (item,) = logs.show(world, ranks.alias, View(stream="err", raw=True))
    assert isinstance(item, logs.StreamEvent)
    cancel(world, [silent.alias])


def test_a_log_that_was_begun_anew_and_has_grown_past_what_was_read_is_told(
    world: World, link: Link, job: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_tail, "STALE", 0.0)
    program = """
echo first
until [[ -e $JOBGEN_RUN_DIR/go ]]; do sleep 0.1; done
"""
    record = submit(world, prepare(world, job(program), "here"))
    seen: list[str] = []
    events: list[logs.StreamEvent] = []
    file = Path(record.directory) / "logs" / "0" / "0" / "local1.0.out"
    for item in logs.follow(world, record.alias, VIEW):
        if isinstance(item, Lines):
            seen += item.list_texts()
            if item.list_texts() == ["first"] and len(seen) == 1:
                # as another writer does who empties the file between two looks
                file.write_text("other\n" * 10)
        else:
            events.append(item)
        if len(seen) > 10:
            (Path(record.directory) / "go").touch()
    assert seen == ["first", *["other"] * 10]
    assert "truncated" in [event.kind for event in events]


@pytest.mark.parametrize("reader", [logs.show, logs.follow])
def test_a_run_directory_that_was_moved_away_is_said(
    world: World, link: Link, run: str, reader: Callable[..., Iterable[Lines | logs.StreamEvent]]
) -> None:
    directory = Path(world.ledger.get(run).directory)
    directory.rename(directory.with_name("elsewhere"))
    quick = replace(world, sleep=lambda _: None)
    with pytest.raises(log_tail.Unread, match="not all logs could be read") as caught:
        texts(reader(quick, run, VIEW))
    assert str(directory) in str(caught.value)


def test_a_run_directory_that_is_moved_while_its_logs_are_followed_is_said(
    world: World, link: Link, job: Callable[..., Path]
) -> None:
    record = submit(world, prepare(world, job("echo first; sleep 2"), "here"))
    directory = Path(record.directory)

    def move(item: Lines | logs.StreamEvent) -> None:
        if isinstance(item, Lines) and directory.exists():
            directory.rename(directory.with_name("elsewhere"))

    with pytest.raises(log_tail.Unread, match="not all logs could be read"):
        collections.deque(map(move, logs.follow(world, record.alias, VIEW)), maxlen=0)


def test_only_files_written_to_since_and_their_newer_lines_are_shown(
    world: World, ranks: RunRecord
) -> None:
    folder = Path(ranks.directory) / "logs/0/0"
    old, new = (next(folder.glob(f"*.{n}.out")) for n in (0, 1))
    os.utime(old, (1.0, 1.0))
    clock = dt.datetime.now().astimezone()
    stamps = [clock - dt.timedelta(hours=h) for h in (5, 0)]
    new.write_text("".join(f"{t:%Y-%m-%d %H:%M:%S} hour {t.hour}\n" for t in stamps))
    view = View(since=3600.0, timestamps=True)
    (lines,) = [item for item in logs.show(world, ranks.alias, view) if isinstance(item, Lines)]
    assert lines.list_texts() == [f"{stamps[1]:%Y-%m-%d %H:%M:%S} hour {stamps[1].hour}"]
    assert format_clock(lines.time) == f"{stamps[1]:%H:%M:%S}"
    shown = texts(logs.follow(world, ranks.alias, view))
    assert shown == lines.list_texts()


def test_logs_of_many_blocks_are_merged_by_time(
    world: World, ranks: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_tail, "BLOCK", 10_000)
    folder = Path(ranks.directory) / "logs/0/0"
    for n in (0, 1):
        lines = [f"2026-11-23 10:{s // 60:02}:{s % 60:02} rank {n}" for s in range(n, 1200, 2)]
        next(folder.glob(f"*.{n}.out")).write_text("".join(f"{line}\n" for line in lines))
    shown = texts(logs.show(world, ranks.alias, View(stream="out")))
    assert len(shown) == 1200
    assert shown == sorted(shown)


def test_logs_of_many_ranks_take_no_more_looks_than_those_of_few(
    world: World, link: Link, ranks: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_tail, "BLOCK", 10_000)
    folder = Path(ranks.directory) / "logs/0/0"
    looks = []
    for count in (3, 30, 90):
        for rank in range(count):
            (folder / f"node.{rank}.out").write_text("".join(f"{rank} {n}\n" for n in range(400)))
        before = len(link.sent)
        assert len(texts(logs.show(world, ranks.alias, View(stream="out")))) >= 400 * count
        looks.append(len(link.sent) - before)
    assert looks[0] == looks[1] == looks[2]


def test_followed_lines_have_the_time_of_their_arrival(
    world: World, job: Callable[..., Path]
) -> None:
    program = "echo first\nuntil [[ -e $JOBGEN_RUN_DIR/go ]]; do sleep 0.1; done\necho second"
    record = submit(world, prepare(world, job(program), "here"))
    begun = world.now()
    times: dict[str, float | None] = {}
    for item in logs.follow(world, record.alias, View(timestamps=True)):
        if isinstance(item, Lines):
            times[item.list_texts()[-1]] = item.time
            Path(world.ledger.get(record.alias).directory, "go").touch()
    offset = time.localtime(begun).tm_gmtoff
    assert times["second"] is not None
    assert begun <= times["second"] - offset <= world.now()
