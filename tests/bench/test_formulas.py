"""Bandwidths, held to the numbers that nccl-tests printed, and the line through times."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.bench import formulas, nccl
from tests.bench.facts import read


def test_bus_bandwidth_is_what_nccl_tests_prints() -> None:
    table = nccl.parse_table(read("a3-megagpu-16"))
    for row in table.rows:
        if row.bytes < 1 << 20:
            continue  # printed with two digits
        assert formulas.compute_algbw(row.bytes, row.seconds) == pytest.approx(
            row.algorithm, rel=2e-3
        )
        found = formulas.compute_busbw("all_reduce", table.ranks, row.bytes, row.seconds)
        assert found == pytest.approx(row.bus, rel=2e-3)


@pytest.mark.parametrize(
    ("op", "ranks", "factor"),
    [
        ("all_reduce", 2, 1.0),
        ("all_reduce", 16, 1.875),
        ("all_gather", 4, 0.75),
        ("reduce_scatter", 4, 0.75),
        ("all_reduce", 1, 0.0),
    ],
)
def test_factors(op: str, ranks: int, factor: float) -> None:
    assert formulas.get_bus_factor(op, ranks) == factor


SIZES = [1 << n for n in range(10, 31, 4)]


@given(alpha=st.floats(1e-6, 1e-2), rate=st.floats(1e6, 1e12))
def test_the_line_is_found_again(alpha: float, rate: float) -> None:
    found = formulas.fit([(size, alpha + size / rate) for size in SIZES])
    if found is None:  # it does not grow by what a float can hold
        assert SIZES[-1] / rate < 1e-6 * alpha
        return
    slowest = alpha + SIZES[-1] / rate
    for size in SIZES:
        took = alpha + size / rate
        assert abs(found.alpha + size / found.rate - took) <= 1e-3 * took + 1e-9 * slowest


@given(st.lists(st.tuples(st.floats(0, 1e12), st.floats(-1, 1e6)), max_size=20))
def test_any_points_give_a_line_that_makes_sense_or_none(points: list[tuple[float, float]]) -> None:
    found = formulas.fit(points)
    assert found is None or (found.alpha >= 0 and found.rate > 0)
