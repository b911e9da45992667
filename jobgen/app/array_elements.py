"""Elements of a job array: ``scan-1[3,7-9]``, and the values that a sweep gave them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobgen.errors import Diagnostic, Usage
from jobgen.model.array import fold_indexes, read_indexes, split_elements
from jobgen.model.record import JobState
from jobgen.model.sweep import TABLE, read_table
from jobgen.model.units import UnitError
from jobgen.named_tuple import NamedTuple
from jobgen.scheduler import LIVE
from jobgen.wording import join_pairs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jobgen.app.run_filter import RunFilter
    from jobgen.app.world import World
    from jobgen.model.record import RunRecord


class ElementRow(NamedTuple):
    """One element of an array."""

    number: int
    """Its index."""
    name: str
    """``LR=1e-5,SEED=0``; empty without a sweep."""
    state: JobState


MOST = 5
"""Elements whose values are shown."""


def split_ref(ref: str) -> tuple[str, tuple[int, ...]]:
    """A job, and which of its elements are meant; none: all of it. Raises Usage."""
    try:
        return split_elements(ref)
    except UnitError as error:
        raise Usage(Diagnostic("J000", error.message, hint=error.hint)) from error


def require_elements(record: RunRecord, elements: Sequence[int]) -> None:
    """Raise Usage where a job does not have these elements."""
    if not elements:
        return
    indexes = str(record.shape.get("array", "")).partition("%")[0]
    if not record.shape.get("elements"):
        message = f"{record.alias} is no job array, so it has no elements"
        raise Usage(Diagnostic("J000", message, hint=f"leave out [...]: {record.alias}"))
    # runs of earlier versions do not record their indexes
    unknown = sorted({*elements} - {*read_indexes(indexes)}) if indexes else []
    if unknown:
        message = f"{record.alias} has no element {unknown[0]}"
        raise Usage(Diagnostic("J000", message, hint=f"its elements: {indexes}"))


def find_run(world: World, ref: str) -> tuple[RunRecord, tuple[int, ...]]:
    """A run, and which of its elements are meant; none: all of it. Raises Usage, Missing."""
    name, elements = split_ref(ref)
    record = world.ledger.get(name)
    require_elements(record, elements)
    return record, elements


def list_element_states(record: RunRecord, elements: Sequence[int]) -> Mapping[int, JobState]:
    """The state of each of these elements, as last seen."""
    others = record.state if record.ended else JobState.PENDING
    known = {
        index: JobState.__members__.get(state, JobState.UNKNOWN)
        for state, indexes in record.element_states.items()
        for index in read_indexes(indexes)
    }
    return {element: known.get(element, others) for element in elements}


def narrow_run(record: RunRecord, elements: Sequence[int]) -> RunRecord:
    """The run as if it had these elements alone: their states, and their end. None: all of it."""
    if not elements:
        return record
    states = list_element_states(record, elements)
    groups: dict[str, list[int]] = {}
    for element, state in states.items():
        groups.setdefault(str(state), []).append(element)
    newest = next((state for state in LIVE if state in groups), JobState.COMPLETED)
    ended = all(state.final for state in states.values())
    known = newest is record.state
    return record._replace(
        alias=f"{record.alias}[{fold_indexes(sorted(elements))}]",
        state=newest,
        ended=record.ended or ended,
        exit=record.exit * known,
        reason=record.reason * known,
        submission={
            **record.submission,
            "elements": {state: len(group) for state, group in groups.items()},
            "element_states": {state: fold_indexes(group) for state, group in groups.items()},
        },
    )


def list_named(world: World, record: RunRecord, elements: Sequence[int] = ()) -> list[ElementRow]:
    """Elements with their values and states: these, or all that the run has."""
    if not record.shape.get("elements"):
        return []
    indexes = str(record.shape.get("array", "")).partition("%")[0]
    chosen = sorted(elements) or (read_indexes(indexes) if indexes else ())
    table = read_table(world.ledger.get_bundle(record.token).get(TABLE, b""))
    names = {index: join_pairs(table[index]) for index in chosen if index < len(table)}
    states = list_element_states(record, chosen)
    return [ElementRow(index, names.get(index, ""), states[index]) for index in chosen]


def find_elements(world: World, record: RunRecord, wanted: RunFilter) -> tuple[int, ...] | None:
    """The elements to which a sweep gave wanted values; none: the whole run has them. None if the
    run does not have them."""
    if wanted.has_sets(record):
        return ()
    if not record.shape.get("sweep"):
        return None
    table = read_table(world.ledger.get_bundle(record.token).get(TABLE, b""))
    indexes = read_indexes(str(record.shape.get("array", "")).partition("%")[0])
    elements = tuple(n for n in indexes if n < len(table) and wanted.has_sets(record, table[n]))
    return elements or None


def read_values(world: World, record: RunRecord) -> Mapping[int, str]:
    """What a sweep gave the first elements that did not succeed: index → ``LR=1e-5,SEED=0``."""
    if not record.unsuccessful:
        return {}
    elements = read_table(world.ledger.get_bundle(record.token).get(TABLE, b""))
    indexes = [i for text in record.unsuccessful.values() for i in read_indexes(text)][:MOST]
    return {index: join_pairs(elements[index]) for index in indexes if index < len(elements)}
