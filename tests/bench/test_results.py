"""What a bench wrote, and what somebody else might have put there."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from jobgen.bench.results import read

WORLD = {"kind": "world", "ranks": 4, "hosts": ["n1", "n2"], "backend": "gloo", "device": "cpu"}
POINT = {"kind": "point", "op": "all_reduce", "bytes": 1 << 20, "median": 0.01, "p10": 0.009}
POINT |= {"p90": 0.012, "repeats": 9, "wrong": [0, 0, 0, 0]}
PAIR = {**POINT, "kind": "pair", "round": 0, "a": "n1", "b": "n2", "ranks": 4}


def lines(*values: object) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


def test_a_whole_bench() -> None:
    net = {"kind": "net", "lines": ["NET/IB : Using [0]mlx5_0:1/IB"]}
    found = read(lines(WORLD, POINT, PAIR, net, {"kind": "end", "faults": 0}))
    assert (found.ranks, found.hosts, found.ended) == (4, ("n1", "n2"), True)
    (point,) = found.select("all_reduce")
    assert point.algorithm == (1 << 20) / 0.01
    assert point.bus == point.algorithm * 1.5
    assert [(pair.a, pair.b) for pair in found.pairs] == [("n1", "n2")]
    assert found.wrong == ()
    assert found.network_lines == ("NET/IB : Using [0]mlx5_0:1/IB",)


def test_what_was_measured_before_a_job_died_is_kept() -> None:
    text = lines(WORLD, POINT) + '{"kind": "point", "op": "all_re'
    found = read(text)
    assert len(found.points) == 1
    assert not found.ended


def test_ranks_with_wrong_results_are_named() -> None:
    assert read(lines(WORLD, {**POINT, "wrong": [0, 0, 3, 0]})).wrong == (2,)


def test_a_pair_with_wrong_results_is_named_by_its_nodes() -> None:
    found = read(lines(WORLD, POINT, {**PAIR, "wrong": [0, 7, 0, 0]}))
    assert found.wrong == ()
    assert found.wrong_pairs == (("n1", "n2"),)


def test_points_that_make_no_sense_are_passed_over() -> None:
    bad = [
        {**POINT, "op": "all_to_all"},
        {**POINT, "median": -1},
        {**POINT, "median": True},
        {**POINT, "p10": 0.02},
        {**POINT, "bytes": 1.5},
        {**POINT, "repeats": 10**400},
        {**POINT, "p90": 10**400},
        {**PAIR, "b": "n1"},
        [1],
        "x",
    ]
    found = read(lines(WORLD, *bad))
    assert found.points == ()
    assert found.pairs == ()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=6,
)
KEYS = st.sampled_from(sorted({*WORLD, *POINT, *PAIR, "lines", "text", "why"}))


@given(
    st.lists(
        st.dictionaries(KEYS, JSON, max_size=9)
        | st.builds(lambda d: {**POINT, **d}, st.dictionaries(KEYS, JSON, max_size=2))
        | JSON,
        max_size=6,
    )
)
def test_any_lines_are_read(values: list[object]) -> None:
    found = read(lines(WORLD, *values))
    for point in (*found.points, *(pair.point for pair in found.pairs)):
        assert point.bus >= 0
        assert point.spread >= 0


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    assert read(text).points == ()
