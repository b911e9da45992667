"""The slow node is found, and no other."""

from __future__ import annotations

from itertools import combinations

from hypothesis import assume, given
from hypothesis import strategies as st

from jobgen.bench.node_pairs import judge_nodes
from jobgen.bench.results import PairResult, Point


def pairs(speeds: list[float]) -> list[PairResult]:
    """Every pair is as fast as the slower of its two nodes."""
    found = []
    for (i, a), (j, b) in combinations(enumerate(speeds), 2):
        seconds = 1 / min(a, b)
        point = Point("all_reduce", 1 << 20, 2, seconds, seconds, seconds, 3)
        found.append(PairResult(f"n{i}", f"n{j}", point))
    return found


def slow(speeds: list[float]) -> set[str]:
    return {node.name for node in judge_nodes(pairs(speeds)) if node.slow}


@given(st.lists(st.floats(0.95, 1.05), min_size=3, max_size=12), st.data())
def test_one_slow_node_is_named_and_no_other(speeds: list[float], data: st.DataObject) -> None:
    assert slow(speeds) == set()
    at = data.draw(st.integers(0, len(speeds) - 1))
    speeds[at] *= data.draw(st.floats(0.05, 0.7))
    assert slow(speeds) == {f"n{at}"}


@given(st.integers(5, 12), st.integers(1, 4), st.floats(0.05, 0.6))
def test_a_few_slow_nodes_are_all_named(good: int, bad: int, factor: float) -> None:
    assume(bad < good)
    assert slow([1.0] * good + [factor] * bad) == {f"n{good + i}" for i in range(bad)}


def test_two_nodes_cannot_be_told_apart() -> None:
    assert slow([1.0, 0.1]) == set()


def test_the_slow_one_comes_first_and_says_by_how_much() -> None:
    first, *rest = judge_nodes(pairs([1.0, 1.0, 0.5, 1.0]))
    assert (first.name, first.slow, first.share) == ("n2", True, 0.5)
    assert not any(node.slow for node in rest)
