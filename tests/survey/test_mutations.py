"""No text brings a parser down: mutations of real answers, and long ones in linear time.

``--mutations N`` tries N mutants of each parser.
"""

from __future__ import annotations

import time

import pytest

from tests.survey.facts import PARSERS, files
from tests.survey.mutations import run

MEGABYTES, FEWER = 10, 2
"""Of a text with and without ``--full``: whose time grows with the square is seen by both."""


@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", PARSERS)
def test_mutated_answers_bring_no_parser_down(
    name: str, pytestconfig: pytest.Config, record_property: pytest.RecordProperty
) -> None:
    count = pytestconfig.getoption("mutations")
    found = run(name, count)
    record_property("slowest", found.slowest)
    assert found.parsed == count
    assert found.slowest < 5, "a text of a few hundred kilobytes took seconds"


@pytest.mark.parametrize("name", PARSERS)
def test_megabytes_are_read_in_seconds(name: str, pytestconfig: pytest.Config) -> None:
    parse, pattern = PARSERS[name]
    text = files(pattern)[0].read_text()
    size = (MEGABYTES if pytestconfig.getoption("full") else FEWER) * 1_000_000
    longest = max(text.split("\n"), key=len)
    for long in (
        text * (size // len(text) + 1),
        text + longest * (size // len(longest) + 1),
        text + "\n" * size,
        "[" * size,
        '{"lscpu":' + "[" * size,
    ):
        started = time.process_time()
        parse(long)
        assert time.process_time() - started < 5, f"{name}: {long[:60]!r}…"


@pytest.mark.parametrize("name", PARSERS)
@pytest.mark.parametrize("text", ["", "\n", "\0", "command not found", "\ud800", "[", "{", ":"])
def test_what_is_no_answer_says_nothing(name: str, text: str) -> None:
    parse, _ = PARSERS[name]
    empty = parse("")
    assert parse(text) == empty
