"""A local cluster for a test, with nothing of it alive afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.payload.localslurm.cluster import Local
from tests.waiting import until


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    """A local cluster in a folder with a difficult name."""
    home = tmp_path / "it's odd"
    home.mkdir()
    cluster = Local(home)
    yield cluster
    cluster.run("scancel", "--me")
    until(lambda: not cluster.run("squeue", "--noheader").out)
    assert cluster.processes() == []
