"""Lines of many logs in the order of time, and honest where they state none."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.follow.collapse import Lines
from jobgen.follow.source import LogSource
from jobgen.follow.time_order import TimeOrder, keep_last
from jobgen.follow.timestamps import count_days, find_times, format_clock

NOW = 1_795_446_000.0
"""A day of November 2026."""
JOB = LogSource("", None, "job")


def rank(number: int) -> LogSource:
    return LogSource(f"n{number}", number, "out")


def order(blocks: Mapping[LogSource, str], window: float = 0.25, after: float | None = None) -> str:
    """What is shown, a line each: ``0 text``, ``0+1 text`` for two ranks, ``j text``."""
    times = TimeOrder(window, after)
    for source, text in blocks.items():
        times.add(source, text.encode())
    return "\n".join(
        f"{'+'.join('j' if s.rank is None else str(s.rank) for s in (lines.source, *lines.also))}"
        f" {text}"
        for lines in times.take_all(NOW)
        for text in lines.list_texts()
    )


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-23 14:57:48,003 step 1",
        "2026-11-23T14:57:48.003 step 1",
        "[2026-11-23 14:57:48,003] [INFO] [launch.py:152:main] x",
        "[rank0]:[E1123 14:57:48.003000 ProcessGroupNCCL.cpp:607] x",
        "W1123 14:57:48.003000 10361 torch/distributed/elastic",
        "INFO 2026/11/23 14:57:48.003 x",
        "INFO:2026-11-23 14:57:48.003 x",
    ],
)
def test_the_time_of_a_line_is_read(line: str) -> None:
    (found,) = find_times(f"no time\n{line}\n".encode(), 2026)
    assert found == (8, pytest.approx(1_795_445_868.003))
    assert format_clock(found[1]) == "14:57:48"


@pytest.mark.parametrize(
    "line",
    ["step 2026-11-23 14:57:48", "E   assert 1", "2026-13-23 14:57:48 x", "1123 14:57:48", "14:57"],
)
def test_what_is_no_time_at_the_beginning_of_a_line_is_none(line: str) -> None:
    times = [*find_times(line.encode(), 2026)]
    assert not times or line.startswith("step"), times


@given(st.dates(dt.date(1970, 1, 1), dt.date(2199, 12, 31)))
def test_days_are_counted_as_the_calendar_does(date: dt.date) -> None:
    days = (date - dt.date(1970, 1, 1)).days
    assert count_days(date.year, date.month, date.day) == days


def test_lines_with_times_are_merged_and_the_others_stay_behind_them() -> None:
    first = "2026-11-23 10:00:00 a\n  more of a\n2026-11-23 10:00:09 d\n"
    second = "2026-11-23 10:00:02 b\n2026-11-23 10:00:05 c\n"
    assert order({rank(0): first, rank(1): second}).split("\n") == [
        "0 2026-11-23 10:00:00 a",
        "0   more of a",
        "1 2026-11-23 10:00:02 b",
        "1 2026-11-23 10:00:05 c",
        "0 2026-11-23 10:00:09 d",
    ]


def test_logs_without_times_come_first_and_the_conclusion_last() -> None:
    job = "preparing\njobgen: rank 1 on n1 exited first, with exit code 7\n"
    timed = "2026-11-23 10:00:00 c\n"
    blocks = {JOB: job, rank(1): "b\n", rank(0): "a\n", rank(2): timed}
    assert order(blocks).split("\n") == [
        "j preparing",
        "0 a",
        "1 b",
        "2 2026-11-23 10:00:00 c",
        "j jobgen: rank 1 on n1 exited first, with exit code 7",
    ]


def test_equal_lines_of_one_moment_are_shown_once() -> None:
    line = "2026-11-23 10:00:00 NCCL 2.27\n"
    assert order({rank(0): line, rank(1): line}) == "0+1 2026-11-23 10:00:00 NCCL 2.27"
    assert order({rank(0): "x\n", rank(1): "x\n"}) == "0+1 x"
    assert order({rank(0): "x\n", rank(1): "x\n"}, window=0) == "0 x\n1 x"


def test_a_clock_that_was_set_back_does_not_reorder_a_log() -> None:
    text = "2026-11-23 10:00:09 a\n2026-11-23 10:00:01 b\n"
    shown = order({rank(0): text, rank(1): "2026-11-23 10:00:05 c\n"}).split("\n")
    assert [line[-1] for line in shown] == ["c", "a", "b"]


def test_only_lines_from_a_time_on_are_kept() -> None:
    after = 1_795_428_000.0 + 5  # 10:00:05
    text = "old\n2026-11-23 10:00:00 a\n  of a\n2026-11-23 10:00:09 b\n  of b\n"
    assert order({rank(0): text}, after=after) == "0 2026-11-23 10:00:09 b\n0   of b"
    assert order({rank(0): "without a time\n"}, after=after) == "0 without a time"


def test_the_last_lines_are_those_of_all() -> None:
    blocks = [Lines(rank(0), b"a\nb\n"), Lines(rank(1), b"c\n", (rank(2),))]
    assert [lines.data for lines in keep_last(blocks, 2)] == [b"b\n", b"c\n"]
    assert keep_last(blocks, 0) == []
    assert keep_last(blocks, 9) == blocks


LINE = st.sampled_from(["a", "2026-11-23 10:00:01 x", "2026-11-23 10:00:05 y", "W1123 10:00:03 z"])


@given(st.lists(st.lists(LINE, max_size=6), min_size=1, max_size=4))
def test_no_line_is_lost_and_each_log_keeps_its_order(logs: list[list[str]]) -> None:
    blocks = {rank(i): "".join(f"{text}\n" for text in log) for i, log in enumerate(logs)}
    times = TimeOrder(0.0)
    for source, text in blocks.items():
        times.add(source, text.encode())
    shown = [(lines.source.rank, t) for lines in times.take_all(NOW) for t in lines.list_texts()]
    for i, log in enumerate(logs):
        assert [text for who, text in shown if who == i] == log
    assert Counter(shown) == Counter((i, text) for i, log in enumerate(logs) for text in log)
