"""Links behind a measured all-reduce: the formulas give its time again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.data import gpus
from jobgen.strategy.speed.collectives import (
    RankGroup,
    compute_seconds,
    fit_links,
    get_link_speeds,
    time_collective,
)
from jobgen.strategy.speed.machine_model import build_machine

MACHINE = build_machine(gpus()["A100-SXM4-80GB"], 8, 25e9, "infiniband")
SIZE = 4 << 30


def took(busbw: float, ranks: int) -> float:
    """Seconds of an all-reduce of SIZE, without what it takes to begin."""
    return SIZE / busbw * 2 * (ranks - 1) / ranks


@given(st.sampled_from([2, 4, 16]), st.sampled_from([1, 4, 8]), st.floats(1e9, 1.5e11))
def test_an_all_reduce_between_nodes_takes_what_was_measured(
    nodes: int, each: int, busbw: float
) -> None:
    ranks = RankGroup(nodes * each, each)
    links = fit_links(busbw, 0.0, ranks)
    assert links.link == 0
    _, seconds = time_collective("all-reduce", ranks, SIZE, MACHINE._replace(measured=links))
    assert seconds.network == pytest.approx(took(busbw, ranks.size), rel=0.01)


@given(st.floats(1e9, 4e11))
def test_and_so_does_one_inside_a_node(busbw: float) -> None:
    ranks = RankGroup(8, 8)
    links = fit_links(busbw, 1e-5, ranks)
    assert (links.network, links.hop) == (0, 0)
    _, seconds = time_collective("all-reduce", ranks, SIZE, MACHINE._replace(measured=links))
    assert compute_seconds(seconds) == pytest.approx(took(busbw, 8), rel=0.01)


def test_beginning_takes_what_was_measured() -> None:
    ranks = RankGroup(16, 8)
    machine = MACHINE._replace(measured=fit_links(100e9, 500e-6, ranks))
    assert compute_seconds(time_collective("all-reduce", ranks, 1024, machine)[1]) == pytest.approx(
        500e-6, rel=0.05
    )
    assert compute_seconds(time_collective("all-reduce", ranks, 1024, MACHINE)[1]) < 100e-6


def test_what_was_not_measured_stays_as_others_reach_it() -> None:
    usual = get_link_speeds(MACHINE)
    inside = get_link_speeds(MACHINE._replace(measured=fit_links(200e9, 0.0, RankGroup(8, 8))))
    assert inside == (200e9, usual[1])
