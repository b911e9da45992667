"""Elements of a job array: ``scan-1[3,7-9]``, and the values that a sweep gave them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobgen.errors import Diagnostic, Usage
from jobgen.model.array import read_indexes, split_elements
from jobgen.model.sweep import TABLE, name_element, read_table
from jobgen.model.units import UnitError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jobgen.app.world import World
    from jobgen.model.record import RunRecord

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


def read_values(world: World, record: RunRecord) -> Mapping[int, str]:
    """What a sweep gave the first elements that did not succeed: index → ``LR=1e-5,SEED=0``."""
    if not record.unsuccessful:
        return {}
    elements = read_table(world.ledger.get_bundle(record.token).get(TABLE, b""))
    indexes = [i for text in record.unsuccessful.values() for i in read_indexes(text)][:MOST]
    return {index: name_element(elements[index]) for index in indexes if index < len(elements)}
