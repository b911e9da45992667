"""Text in columns."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jobgen.cli.layout import (
    align,
    clip,
    fold,
    fold_rows,
    format_size,
    format_span,
    measure,
    pad,
    write_hours,
)
from jobgen.cli.screens.offers import format_amount
from jobgen.wording import count


def test_wide_and_combining_characters_are_counted_as_a_terminal_does() -> None:
    assert measure("abc") == 3
    assert measure("你好") == 4
    assert measure("e\u0301") == 1
    assert pad("你", 4) == "你  "


def test_a_table_has_columns_as_wide_as_their_widest_cell() -> None:
    assert align([("a", "bb", "c"), ("aaa", "b", "")]) == "a    bb  c\naaa  b\n"
    assert align([]) == ""


@pytest.mark.parametrize("width", [1, 20, 40, 79])
@pytest.mark.parametrize(
    "text",
    [
        "lab.yaml has errors; show them: jobgen lint ~/clusters/a.yaml --json; or edit the file",
        "edit it, then jobgen plan sub/job.yaml -c a100x16; or move it away",
        "write it anew (with jobgen init -y -c local) and look at `jobgen show ID --gpus` again",
    ],
)
def test_a_command_in_a_sentence_is_never_folded(text: str, width: int) -> None:
    folded = fold(text, width, "    ")
    commands = re.findall(r"jobgen [^;)`]*", text)
    assert all(command in folded for command in commands)


@given(st.text("ab 你", max_size=200), st.integers(40, 120))
def test_folding_keeps_every_word_whole_and_in_order(text: str, width: int) -> None:
    folded = fold(text, width, "    ")
    assert folded.split() == text.split()
    assert all(measure(line) <= width + 4 for line in folded.split("\n") if " " in line.strip())


@given(st.text(max_size=60), st.integers(2, 30))
def test_clipping_never_takes_more_columns_than_it_may(text: str, width: int) -> None:
    assert measure(clip(text, width)) <= width


@given(st.lists(st.tuples(*[st.text("ab /$", max_size=70)] * 3), max_size=6), st.integers(60, 200))
def test_a_value_is_never_broken(rows: list[tuple[str, str, str]], width: int) -> None:
    text = fold_rows(rows, width)
    assert all(value.strip() in text for _, value, _ in rows)


def test_amounts_are_in_words_of_people() -> None:
    assert format_size(0) == "0 B"
    assert format_size(1023) == "1023 B"
    assert format_size(2.1 * 1024**2) == "2.1 MiB"
    assert format_size(1024**3 - 1) == "1.0 GiB"
    assert format_span(None) == "-"
    assert [format_span(s) for s in (0, 59, 65, 4320, 90000)] == [
        "0s",
        "59s",
        "1m05s",
        "1h12m",
        "1d01h",
    ]
    assert count(1, "file") == "1 file"
    assert count(0, "entry", "entries") == "0 entries"


@example(99.96, 3)
@example(24576.0, 3)
@example(0.0000001, 3)
@given(st.floats(0, 1e9), st.integers(3, 4))
def test_hours_are_written_as_people_read_them(hours: float, digits: int) -> None:
    text = write_hours(hours, digits)
    assert "e" not in text
    if text != "<0.01":
        assert float(text.replace(",", "")) == pytest.approx(hours, rel=0.006, abs=0.005)


def test_hours_have_no_digits_that_say_nothing() -> None:
    hours = (64, 2.6666, 24576, 99.96, 9.999, 0.25, 0.001, 0, 1234.56)
    texts = ("64", "2.67", "24,576", "100", "10", "0.25", "<0.01", "0", "1,235")
    assert tuple(map(write_hours, hours)) == texts


@given(st.floats(0, 1e15))
def test_an_amount_has_no_exponent(amount: float) -> None:
    assert re.fullmatch(r"[\d.,<]+( (tr|b|m)illion)?", format_amount(amount))
