"""Text in columns."""

from hypothesis import given
from hypothesis import strategies as st

from jobgen.cli.layout import (
    align,
    clip,
    count,
    fold,
    fold_rows,
    format_size,
    format_span,
    measure,
    pad,
)


def test_wide_and_combining_characters_are_counted_as_a_terminal_does() -> None:
    assert measure("abc") == 3
    assert measure("你好") == 4
    assert measure("e\u0301") == 1
    assert pad("你", 4) == "你  "


def test_a_table_has_columns_as_wide_as_their_widest_cell() -> None:
    assert align([("a", "bb", "c"), ("aaa", "b", "")]) == "a    bb  c\naaa  b\n"
    assert align([]) == ""


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
