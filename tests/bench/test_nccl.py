"""NCCL's own words, as real programs print them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.bench.nccl import NcclPaths, parse_table, read_paths
from tests.bench.facts import DIRECT, FOLDER, SOCKET, read


def test_a_whole_table() -> None:
    found = parse_table(read("a3-megagpu-16"))
    assert found.ranks == 16
    assert len(found.rows) == 31
    assert found.rows[0].bytes == 8
    last = found.rows[-1]
    assert (last.bytes, last.algorithm, last.bus) == (8589934592, 180.71e9, 338.82e9)
    assert last.seconds == pytest.approx(47535e-6)
    assert found.average == pytest.approx(70.742e9)
    assert not found.failed


def test_a_table_under_mpirun_with_a_log_between() -> None:
    found = parse_table(read("efa-2"))
    assert [row.bytes for row in found.rows] == [0, 262144, 4194304, 536870912, 1073741824]
    assert found.rows[-1].bus == pytest.approx(3.11e9)
    assert found.average == pytest.approx(1.15327e9)


def test_an_old_release_without_a_column() -> None:
    found = parse_table(read("broadcast-2.0"))
    assert found.ranks == 2
    assert [(row.bytes, row.wrong) for row in found.rows] == [(8, 0)]
    assert found.rows[0].seconds == pytest.approx(45.82e-6)


def test_results_that_were_wrong_are_told() -> None:
    assert parse_table("# Out of bounds values : 50 FAILED").failed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SOCKET, NcclPaths("Socket", None, ("P2P",))),
        (DIRECT, NcclPaths("IB", True, ())),  # noqa: FBT003
        (read("efa-2"), NcclPaths("AWS Libfabric", False, ())),  # noqa: FBT003
        ("", NcclPaths()),
        ("NET/Socket : Using [0]eth0:10.0.4.51<0>", NcclPaths("Socket")),
    ],
)
def test_paths(text: str, expected: NcclPaths) -> None:
    assert read_paths(text.splitlines()) == expected


@given(
    st.sampled_from([p.read_text(encoding="utf-8") for p in sorted(FOLDER.glob("*.txt"))]),
    st.lists(st.tuples(st.integers(0, 1 << 20), st.text(max_size=4)), max_size=30),
)
def test_a_damaged_table_is_read_as_far_as_it_goes(
    text: str, damage: list[tuple[int, str]]
) -> None:
    for at, piece in damage:
        place = at % (len(text) + 1)
        text = text[:place] + piece + text[place + 1 :]
    found = parse_table(text)
    assert all(row.bytes >= 0 and row.bus >= 0 for row in found.rows)
    read_paths(text.splitlines())
