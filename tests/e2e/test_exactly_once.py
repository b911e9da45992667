"""Real faults on a real cluster: a run executes exactly once and its id is known.

``pytest --faults N`` makes N times as many trials of each kind, ``make faults`` all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.e2e.faults import FAULTS, Fault, Trial, raise_cluster

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture(scope="module")
def stormy() -> Iterator[Cluster]:
    """A cluster of its own."""
    with raise_cluster() as cluster:
        yield cluster


def trials(times: int) -> list[object]:
    return [
        pytest.param((fault, number), id=f"{fault.what}-{number}")
        for fault in FAULTS
        for number in fault.few(times)
    ]


@pytest.mark.trials("struck", trials)
def test_it_executes_once_and_every_word_is_true(
    stormy: Cluster, tmp_path: Path, struck: tuple[Fault, int]
) -> None:
    fault, number = struck
    came = fault.strike(Trial(stormy, tmp_path), number)
    assert not came.wrong
    assert not came.traceback
    assert came.executed <= 1
