"""Sizes as people write them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.bench.message_sizes import LEAST, MOST, parse

M, G = 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("1M..8M", (M, 2 * M, 4 * M, 8 * M)),
        ("1M:3M", (M, 2 * M, 3 * M)),
        ("64K", (64 << 10,)),
        ("1G,1M,1m", (M, G)),
        ("8", (8,)),
        ("1MiB..2MiB", (M, 2 * M)),
    ],
)
def test_what_is_understood(text: str, sizes: tuple[int, ...]) -> None:
    assert parse(text) == sizes


@pytest.mark.parametrize("text", ["", "1X", "2M..1M", "0", "1T", "..", "1M..", "-1", "1e6", "1,,2"])
def test_what_is_not(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|backwards"):
        parse(text)


@given(st.text(max_size=30))
def test_any_text_gives_growing_sizes_within_bounds_or_a_sentence(text: str) -> None:
    try:
        found = parse(text)
    except ValueError:
        return
    assert found
    assert list(found) == sorted(set(found))
    assert LEAST <= found[0] <= found[-1] <= MOST


@given(low=st.integers(LEAST, 1 << 30), high=st.integers(LEAST, 1 << 36))
def test_a_span_ends_where_it_was_said_to(low: int, high: int) -> None:
    low, high = min(low, high), max(low, high)
    found = parse(f"{low}..{high}")
    assert (found[0], found[-1]) == (low, high)
    assert all(b <= 2 * a for a, b in pairwise(found))
