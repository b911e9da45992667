"""The elements of a sweep, a line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobgen.cli.output import defuse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobgen.app.array_elements import ElementRow
    from jobgen.model.plan import Plan

FEW = 4
"""Elements that are listed without ``-v``."""


LISTED = 8
"""Elements of a run that are listed on one screen."""


def list_elements(plan: Plan, *, every: bool) -> list[str]:
    """``0  LR=1e-5,SEED=0`` for each element that runs; nothing without a sweep."""
    if not plan.elements:
        return []
    from jobgen.model.array import read_indexes
    from jobgen.wording import join_pairs

    packing = plan.shape.packing
    listed = packing.indexes if packing else plan.directives["array"].value.partition("%")[0]
    indexes = read_indexes(listed)
    # one line more is as long as the line that hides it
    shown = indexes if every or len(indexes) == FEW + 1 else indexes[:FEW]
    hidden = len(indexes) - len(shown)
    texts = [f"{index}  {defuse(join_pairs(plan.elements[index]))}" for index in shown]
    return [*texts, f"{hidden:,} more (-v)"] if hidden else texts


def describe_packing(plan: Plan) -> str:
    """Workers and rounds of a packed sweep, and the time that is left for an element; else empty.

    How long an element takes is not known; if all take the same time, this is the most.
    """
    from jobgen.model.units import Walltime
    from jobgen.wording import count

    shape, packing = plan.shape, plan.shape.packing
    if packing is None or not shape.elements:
        return ""
    each = count(shape.gpus_per_node, "GPU") if shape.gpus_per_node else ""
    each = each or count(shape.ranks_per_node, "rank")
    rounds = -(-shape.elements // packing.slots)
    limit = Walltime(shape.seconds)
    text = f"{count(packing.slots, 'worker')} with {each} each, {count(rounds, 'round')}"
    if rounds == 1:
        return f"{text}: each element may take {limit.human()}"
    share = Walltime(shape.seconds // rounds)
    return f"{text}: fits in {limit.human()} if an element takes up to {share.human()}"


def draw_elements(rows: Sequence[ElementRow], *, every: bool, more: str = "-v") -> list[str]:
    """``[3] LR=1e-5,SEED=0  failed`` for each element, or for as many as a screen has room for.

    ``more``: what shows the others.
    """
    shown = rows if every or len(rows) <= LISTED else rows[:LISTED]
    words = ((f"  [{row.number}]", defuse(row.name), row.state.lower()) for row in shown)
    texts = ["  ".join(word for word in each if word) for each in words]
    hidden = len(rows) - len(shown)
    return [*texts, f"  {hidden:,} more ({more})"] if hidden else texts
