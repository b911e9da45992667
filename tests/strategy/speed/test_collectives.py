"""Seconds of a collective, against what others measured and published."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.strategy.spec import Mesh
from jobgen.strategy.speed.collectives import (
    Collective,
    RankGroup,
    build_group,
    compute_seconds,
    time_collective,
)
from tests.strategy.speed.setups import A100, H100, setup

GIB = 1 << 30
MIB = 1 << 20
B200 = H100._replace(link=900e9)
NODE = RankGroup(8, 8)


@pytest.mark.parametrize(
    ("what", "size", "machine", "busbw"),
    [
        # stas00/ml-engineering, network/README.md: GB/s of the bus, 8 GPUs of a node, rings
        ("all-reduce", 16 * GIB, A100, 234.89),
        ("all-reduce", 512 * MIB, A100, 223.0),
        ("all-reduce", 64 * MIB, A100, 172.0),
        ("all-reduce", 16 * GIB, H100, 367.2),
        ("all-gather", 16 * GIB, H100, 361.4),
        ("reduce-scatter", 16 * GIB, H100, 362.9),
    ],
)
def test_inside_a_node_it_is_as_fast_as_measured(
    what: Collective, size: int, machine: object, busbw: float
) -> None:
    assert isinstance(machine, type(A100))
    moved = (2 if what == "all-reduce" else 1) * 7 / 8 * size
    took = compute_seconds(time_collective(what, NODE, size, machine)[1])
    assert moved / took / 1e9 == pytest.approx(busbw, rel=0.3 if size < GIB else 0.05)


@pytest.mark.parametrize(("size", "busbw"), [(4 * GIB, 377.34), (16 * GIB, 381.80)])
def test_over_four_nodes_it_is_as_fast_as_measured(size: int, busbw: float) -> None:
    # the same page: 4 nodes of 8 B200, a card of 50 GB/s for each
    took = compute_seconds(time_collective("all-reduce", RankGroup(32, 8), size, B200)[1])
    assert 2 * 31 / 32 * size / took / 1e9 == pytest.approx(busbw, rel=0.05)


def test_many_small_ones_are_slower_than_a_large_one() -> None:
    # the same page: 1000 x 4 MB is three times as slow as 1 x 4 GB
    small = 1000 * compute_seconds(time_collective("all-reduce", NODE, 4e6, H100)[1])
    assert small > 2 * compute_seconds(time_collective("all-reduce", NODE, 4e9, H100)[1])


def test_nvlink_joins_the_nodes_of_a_rack() -> None:
    asked = setup("fsdp2", mesh=Mesh(4, 36), world_per_node=4)
    rack = asked._replace(nvlink_nodes=18)
    assert build_group(asked, "shard") == RankGroup(36, 4)
    assert build_group(rack, "shard") == RankGroup(36, 36)
    assert build_group(rack, "shard", "replicate") == RankGroup(144, 72)
    assert build_group(rack, "replicate") == RankGroup(4, 2)


def test_neighbours_come_first_along_tp_and_last_along_pp() -> None:
    asked = setup("fsdp2", mesh=Mesh(2, 4, tp=4, pp=2, cp=2))
    assert build_group(asked, "tp") == RankGroup(4, 4)
    assert build_group(asked, "cp") == RankGroup(2, 2)
    assert build_group(asked, "shard") == RankGroup(4, 1)
    assert build_group(asked, "cp", "shard") == RankGroup(8, 2)
    assert build_group(asked, "pp") == RankGroup(2, 1)


@given(
    what=st.sampled_from(["all-gather", "reduce-scatter", "all-reduce", "all-to-all"]),
    inside=st.sampled_from([1, 2, 4, 8]),
    nodes=st.integers(1, 64),
    size=st.floats(1e3, 1e11),
)
def test_more_bytes_never_take_less_time(
    what: Collective, inside: int, nodes: int, size: float
) -> None:
    ranks = RankGroup(inside * nodes, inside)
    took = compute_seconds(time_collective(what, ranks, size, A100)[1])
    assert compute_seconds(time_collective(what, ranks, 2 * size, A100)[1]) >= took
    assert compute_seconds(time_collective(what, ranks, size, H100)[1]) <= took
