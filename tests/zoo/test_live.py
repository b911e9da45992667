"""Failures made anew on the test cluster end as their table says, and are diagnosed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.cluster.install import no_cgroups
from tests.zoo.cases import read_cases
from tests.zoo.failures import FAILURES
from tests.zoo.judge import LEAST, Judged, compute_shares, judge
from tests.zoo.making import check_end, find_failure, make_failure, raise_cluster

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.train("torch", "deepspeed", "accelerate", "lightning", "transformers", "megatron"),
    pytest.mark.slow,
    pytest.mark.exhaustive,
]
NAMES = sorted((f.name for f in FAILURES), key=lambda name: find_failure(name).cluster)
"""Those of one cluster after the other's."""


@pytest.fixture(scope="module")
def clusters() -> Iterator[dict[str, Cluster]]:
    """The clusters that are up, by their kind."""
    up: dict[str, Cluster] = {}
    yield up
    for cluster in up.values():
        cluster.down()


@pytest.fixture(scope="module")
def made() -> list[Judged]:
    """What was made so far, and whether its diagnosis is right."""
    return []


@pytest.mark.parametrize("name", NAMES)
def test_a_failure_ends_as_the_table_says(
    clusters: dict[str, Cluster], made: list[Judged], tmp_path: Path, name: str
) -> None:
    failure = find_failure(name)
    if failure.cluster == "memory" and (reason := no_cgroups()):
        pytest.skip(reason)
    if failure.cluster not in clusters:
        clusters[failure.cluster] = raise_cluster(failure.cluster)
    folder = make_failure(name, clusters[failure.cluster], tmp_path / name)
    if failure.costs_node:
        clusters.pop(failure.cluster).down()
    assert not check_end(failure, folder)
    (case,) = read_cases(folder)
    assert all(path.is_file() for path in case.files)
    made.append(judge(case))


def test_what_was_made_is_diagnosed(made: list[Judged]) -> None:
    """By shares of all: who of several ranks writes first differs from run to run."""
    if len(made) < len(NAMES) / 2:
        pytest.skip(f"{len(made)} of {len(NAMES)} were made: too few for shares")
    missed = [row.describe() for row in made if not (row.cause and row.rank and row.retry)]
    shares = compute_shares(made)
    assert {k for k, share in shares.items() if share < LEAST[k]} == set(), "\n".join(missed)
