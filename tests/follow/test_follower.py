"""Many files become one stream of lines."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from jobgen.follow.collapse import Lines, collapse
from jobgen.follow.follower import Follower
from jobgen.follow.source import parse_source
from jobgen.follow.view import View, parse_ranks


def path(rank: int, stream: str = "out") -> str:
    return f"logs/0/0/n0{rank // 2}.{rank}.{stream}"


def said(shown: list[Lines]) -> list[tuple[int | None, str, tuple[int | None, ...]]]:
    return [
        (block.source.rank, text, tuple(s.rank for s in block.also))
        for block in shown
        for text in block.list_texts()
    ]


def test_equal_lines_of_several_ranks_are_shown_once() -> None:
    follower = Follower(View())
    for rank in range(4):
        assert follower.feed(path(rank), b"NCCL 2.27\nrank %d\n" % rank, 1.0) == []
    assert said(follower.tick(1.5)) == [
        (0, "NCCL 2.27", (1, 2, 3)),
        (0, "rank 0", ()),
        (1, "rank 1", ()),
        (2, "rank 2", ()),
        (3, "rank 3", ()),
    ]


def test_equal_lines_far_apart_in_time_are_not_joined() -> None:
    follower = Follower(View())
    first = follower.feed(path(0), b"hello\n", 1.0)
    second = follower.feed(path(1), b"hello\n", 9.0)
    assert said(first + second + follower.close(9.0)) == [(0, "hello", ()), (1, "hello", ())]


def test_lines_come_at_once_where_only_one_rank_is_asked_for() -> None:
    follower = Follower(View(ranks=parse_ranks("1")))
    assert follower.feed(path(0), b"no\n", 1.0) == []
    assert said(follower.feed(path(1), b"yes\n", 1.0)) == [(1, "yes", ())]


def test_a_line_waits_no_longer_than_the_window() -> None:
    follower = Follower(View(window=0.25))
    follower.feed(path(0), b"a\n", 1.0)
    assert follower.tick(1.2) == []
    assert said(follower.tick(1.25)) == [(0, "a", ())]


def test_output_and_errors_are_not_joined() -> None:
    follower = Follower(View())
    follower.feed(path(0), b"x\n", 1.0)
    follower.feed(path(1, "err"), b"x\n", 1.0)
    assert said(follower.close(1.0)) == [(0, "x", ()), (1, "x", ())]


def test_only_lines_with_the_pattern_are_shown() -> None:
    follower = Follower(View(grep="loss [0-9]", collapse=False))
    shown = follower.feed(path(0), b"loss 8\nlossless\nloss 7\n", 0.0)
    assert said(shown) == [(0, "loss 8", ()), (0, "loss 7", ())]


def test_the_last_lines_of_all_that_is_shown_are_shown_and_then_all_new_ones() -> None:
    follower = Follower(View(lines=4, collapse=False))
    assert follower.feed(path(1), b"a\nb\nc\n", 0.0) == []
    assert follower.feed(path(0), b"1\n2\n3\n", 0.0) == []
    assert said(follower.settle(0.0)) == [(0, "3", ()), (1, "a", ()), (1, "b", ()), (1, "c", ())]
    assert said(follower.feed(path(1), b"d\ne\nf\n", 0.1)) == [
        (1, "d", ()),
        (1, "e", ()),
        (1, "f", ()),
    ]


def test_no_lines_of_the_past_means_only_new_ones() -> None:
    follower = Follower(View(lines=0, collapse=False))
    follower.feed(path(0), b"old\n", 0.0)
    assert follower.settle(0.0) == []
    assert said(follower.feed(path(0), b"new\n", 0.0)) == [(0, "new", ())]


def test_the_last_lines_of_a_finished_job_hold_its_unfinished_line() -> None:
    follower = Follower(View(lines=1, collapse=False))
    follower.feed(path(0), b"a\nb", 0.0)
    assert said(follower.close(0.0)) == [(0, "b", ())]


def test_an_unfinished_line_is_shown_at_the_end() -> None:
    follower = Follower(View(collapse=False))
    assert follower.feed(path(0), b"no newline", 0.0) == []
    assert said(follower.close(0.0)) == [(0, "no newline", ())]


def test_raw_bytes_are_given_back_exactly() -> None:
    follower = Follower(View(raw=True, ranks=parse_ranks("0")))
    data = b"\x1b[31m\xff\r50%\r\nlast"
    shown = follower.feed(path(0), data, 0.0) + follower.close(0.0)
    assert b"".join(block.data for block in shown) == data


LINES = st.lists(st.sampled_from([b"a", b"b", b"c", b"d", b""]), max_size=6)


@given(st.lists(LINES, min_size=1, max_size=5))
def test_collapsing_loses_no_line_and_invents_none(ranks: list[list[bytes]]) -> None:
    blocks = []
    for rank, lines in enumerate(ranks):
        source = parse_source(path(rank))
        assert source is not None
        if lines:
            blocks.append((source, b"".join(line + b"\n" for line in lines)))
    shown: Counter[tuple[int | None, str]] = Counter()
    for block in collapse(blocks):
        for text in block.list_texts():
            shown.update((s.rank, text) for s in (block.source, *block.also))
    expected = Counter((r, line.decode()) for r, lines in enumerate(ranks) for line in lines)
    assert shown == expected


@given(LINES)
def test_a_ranks_own_lines_stay_in_their_order(lines: list[bytes]) -> None:
    follower = Follower(View())
    follower.feed(path(0), b"".join(line + b"\n" for line in lines), 0.0)
    follower.feed(path(1), b"z\na\nz\n", 0.0)
    shown = follower.close(0.0)
    mine = [t for block in shown if block.source.rank == 0 for t in block.list_texts()]
    assert mine == [line.decode() for line in lines]


def test_a_progress_bar_is_shown_as_it_goes_on_at_most_once_a_second() -> None:
    follower = Follower(View())
    assert follower.take_bars(0.0) == []
    follower.feed(path(0), b"start\n\r 1%", 1.0)
    follower.feed(path(1), b"\r 1%", 1.0)
    (bar,) = follower.take_bars(1.0)
    assert (bar.source.rank, bar.list_texts(), bar.bar) == (0, [" 1%"], True)
    follower.feed(path(0), b"\r 2%\r 3%", 1.5)
    assert follower.take_bars(1.9) == []
    assert [bar.list_texts() for bar in follower.take_bars(2.0)] == [[" 3%"]]
    assert [bar.source.rank for bar in follower.take_bars(3.0)] == [1]
    follower.feed(path(0), b"\r100%\n", 4.0)
    follower.feed(path(1), b"\r100%\n", 4.0)
    assert follower.take_bars(5.0) == []
    assert said(follower.close(9.0)) == [(0, "100%", (1,))]


def test_an_unfinished_line_without_carriage_returns_is_no_bar() -> None:
    follower = Follower(View())
    follower.feed(path(0), b"loading ...", 1.0)
    assert follower.take_bars(1.0) == []
