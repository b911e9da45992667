"""What the tests of the examples share: a process that has imported all that the programs need."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.examples.starts import Warm


@pytest.fixture(scope="session")
def warm() -> Iterator[Warm]:
    """All is imported once."""
    with Warm() as process:
        yield process
