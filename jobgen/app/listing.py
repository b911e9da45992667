"""Runs for a list: the newest, or those that have something in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from jobgen.app.jobs import FRESH, refresh_stale
from jobgen.app.run_filter import ALL_RUNS, RunFilter
from jobgen.app.world import World
from jobgen.model.record import RunRecord
from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jobgen.app.array_elements import ElementRow

LISTED = 20
"""Runs that ``ls`` lists where no number is given: with its head they fit a screen."""
CROWDED = 20 << 30
"""Bytes that runs may hold on a cluster before ``ls`` mentions it."""


class ListedRuns(NamedTuple):
    """Runs, newest first."""

    records: tuple[RunRecord, ...]
    more: int = 0
    """How many other runs there are."""
    elements: Mapping[str, Sequence[ElementRow]] = MappingProxyType({})
    """Token → its elements, where they were asked for."""
    crowded: Mapping[str, tuple[int, int]] = MappingProxyType({})
    """Cluster on which runs hold more than CROWDED → how many runs, and their bytes."""


def list_runs(
    world: World,
    *,
    every: bool = False,
    wanted: RunFilter = ALL_RUNS,
    cached: bool = False,
    limit: int | None = None,
) -> ListedRuns:
    """The newest runs: ``limit`` of them, else LISTED, where those that have not ended come first.

    Of those that are wanted, whatever their number, if these are not all.
    """
    ledger, most = world.ledger, None if every else limit or LISTED
    first = None if wanted.states or wanted.sets else most
    records = ledger.list_runs(cluster=wanted.cluster, limit=first, live_first=limit is None)
    matching = _find_matching(world, records, wanted) if wanted.sets else None
    records = tuple(r for r in records if matching is None or r.token in matching)
    records = records if wanted.states else records[:most]
    if not cached:
        records = refresh_stale(world, records, fresh=FRESH)
    records = tuple(record for record in records if wanted.has_state(record))[:most]
    held = ledger.sum_held().items()
    crowded = {
        name: sums
        for name, sums in held
        if sums[1] > CROWDED and (wanted.cluster is None or name == wanted.cluster)
    }
    records = _narrow_runs(records, matching) if matching else records
    return ListedRuns(records, ledger.count_runs() - len(records), crowded=crowded)


def _find_matching(
    world: World, records: Sequence[RunRecord], wanted: RunFilter
) -> dict[str, tuple[int, ...]]:
    """Token → elements of a run to which its sweep gave the wanted values; none: the whole run."""
    from jobgen.app.array_elements import find_elements

    matching = ((record.token, find_elements(world, record, wanted)) for record in records)
    return {token: elements for token, elements in matching if elements is not None}


def _narrow_runs(
    records: Sequence[RunRecord], matching: Mapping[str, tuple[int, ...]]
) -> tuple[RunRecord, ...]:
    from jobgen.app.array_elements import narrow_run

    return tuple(narrow_run(record, matching[record.token]) for record in records)


def add_elements(world: World, listed: ListedRuns) -> ListedRuns:
    """The runs with the elements of those that are arrays."""
    from jobgen.app.array_elements import list_named, split_ref

    chosen = {record.token: split_ref(record.alias)[1] for record in listed.records}
    elements = {r.token: list_named(world, r, chosen[r.token]) for r in listed.records}
    return listed._replace(elements=elements)
