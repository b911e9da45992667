"""However the bytes are cut, the lines are the same."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from jobgen.follow.line_splitter import Assembler, keep_last_lines


def assembled(chunks: list[bytes], *, cap: int = 1 << 20, raw: bool = False) -> bytes:
    assembler = Assembler(cap=cap, raw=raw)
    return b"".join([*map(assembler.feed, chunks), assembler.flush()])


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({min(p, len(data)) for p in places} | {0, len(data)})
    return [data[a:b] for a, b in pairwise(ends)]


TEXT = st.text(st.sampled_from("ab→你\r\n\t"), max_size=60).map(str.encode)
PLACES = st.lists(st.integers(0, 200), max_size=12)


@given(st.binary(max_size=120), PLACES)
def test_raw_bytes_come_back_as_they_were(data: bytes, places: list[int]) -> None:
    assert assembled(cut(data, places), raw=True) == data


@given(st.text("ab→你\n", max_size=60).map(str.encode), PLACES)
def test_lines_do_not_depend_on_the_chunks(data: bytes, places: list[int]) -> None:
    whole = data if data.endswith(b"\n") or not data else data + b"\n"
    assert assembled(cut(data, places)) == whole


@given(st.text("ab→你\n", max_size=80).map(str.encode), PLACES, st.integers(4, 9))
def test_a_long_line_comes_in_pieces_and_no_character_is_broken(
    data: bytes, places: list[int], cap: int
) -> None:
    pieces = assembled(cut(data, places), cap=cap)
    assert pieces == assembled([data], cap=cap)
    assert pieces.replace(b"\n", b"") == data.replace(b"\n", b"")
    assert all(len(line) <= cap + 1 for line in pieces.split(b"\n"))
    pieces.decode()


@given(TEXT, PLACES)
def test_a_progress_bar_does_not_depend_on_the_chunks(data: bytes, places: list[int]) -> None:
    from jobgen.follow.sanitize import clean_lines

    assert clean_lines(assembled(cut(data, places))) == clean_lines(assembled([data]))


def test_an_endless_progress_bar_holds_only_its_last_state() -> None:
    assembler = Assembler()
    for percent in range(10000):
        assert assembler.feed(b"\r%d%%" % percent) == b""
    assert assembler.flush() == b"9999%\n"


def test_a_line_without_end_is_shown_in_pieces_of_a_mebibyte() -> None:
    assembler = Assembler()
    shown = b"".join(assembler.feed(b"x" * 300_000) for _ in range(10))
    assert len(shown.split(b"\n")[0]) == 1 << 20


def test_the_last_lines_are_counted_with_an_unfinished_one() -> None:
    assert keep_last_lines(b"a\nb\nc\n", 2) == b"b\nc\n"
    assert keep_last_lines(b"a\nb\nc", 2) == b"b\nc"
    assert keep_last_lines(b"a\n", 5) == b"a\n"
    assert keep_last_lines(b"\n\n\n", 1) == b"\n"
    assert keep_last_lines(b"", 3) == b""
    assert keep_last_lines(b"a\nb\n", 0) == b""


@given(st.text("ab\n", max_size=40).map(str.encode), st.integers(0, 6))
def test_the_last_lines_are_those_of_a_list(data: bytes, count: int) -> None:
    lines = data.splitlines(keepends=True)
    assert keep_last_lines(data, count) == b"".join(lines[len(lines) - min(count, len(lines)) :])
