"""Which runs a list is to have."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobgen.model.record import RunRecord

EMPTY: Mapping[str, str] = MappingProxyType({})


class RunFilter(NamedTuple):
    """What the runs of a list have in common; without a value, all runs."""

    cluster: str | None = None
    states: tuple[str, ...] = ()
    """One of these states."""
    sets: tuple[str, ...] = ()
    """Each of these values of ``--set``; without ``=``, any value of that key."""

    def has_state(self, record: RunRecord) -> bool:
        """Whether a run is in one of the states."""
        return not self.states or record.state in self.states

    def has_sets(self, record: RunRecord, element: Mapping[str, str] = EMPTY) -> bool:
        """Whether a run was submitted with these values, or its sweep gave them to an element;
        ``1e-3`` is ``0.001``."""
        known = {**dict(word.partition("=")[::2] for word in record.sets), **element}
        asked = (word.partition("=") for word in self.sets)
        return all(
            key in known and (not equals or _is_same(known[key], value))
            for key, equals, value in asked
        )


ALL_RUNS = RunFilter()


def _is_same(one: str, other: str) -> bool:
    try:
        return one == other or float(one) == float(other)
    except ValueError:
        return False
