"""Failures made anew on the test cluster end as their table says.

Whether they are diagnosed right is judged elsewhere, of what ``make_failure`` records.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.cluster.install import no_cgroups
from tests.zoo.failures import FAILURES
from tests.zoo.making import check_end, find_failure, make_failure, raise_cluster

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.train("torch", "deepspeed", "accelerate", "lightning", "transformers", "megatron"),
    pytest.mark.slow,
    pytest.mark.exhaustive,
]
NAMES = sorted((f.name for f in FAILURES), key=lambda name: find_failure(name).cluster)
"""Those of one cluster after the other's."""
_clusters: dict[str, Cluster] = {}


@pytest.fixture(scope="module")
def clusters() -> Iterator[dict[str, Cluster]]:
    """The clusters that are up, by their kind."""
    yield _clusters
    for cluster in _clusters.values():
        cluster.down()


@pytest.mark.parametrize("name", NAMES)
def test_a_failure_ends_as_the_table_says(
    clusters: dict[str, Cluster], tmp_path: Path, name: str
) -> None:
    failure = find_failure(name)
    if failure.cluster == "memory" and (reason := no_cgroups()):
        pytest.skip(reason)
    if failure.cluster not in clusters:
        clusters[failure.cluster] = raise_cluster(failure.cluster)
    folder = make_failure(name, clusters[failure.cluster], tmp_path / name)
    assert not check_end(failure, folder)
    truth = json.loads((folder / "truth.json").read_text())
    assert all((folder / file).is_file() for file in truth["files"])
