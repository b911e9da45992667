"""The steps or groups of a run that a person names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobgen.errors import Usage

if TYPE_CHECKING:
    from jobgen.model.record import RunRecord


def require_parts(record: RunRecord, name: str) -> tuple[str, ...]:
    """The steps or groups of this name; of a step that runs in rounds, all its runs.

    Raises Usage if the run has none.
    """
    parts = record.select_parts(name)
    if parts:
        return parts
    kind = record.part_kind
    known = f"its {kind}s: {', '.join(record.steps)}"
    hint = known if record.steps else "it has one program, and no steps"
    raise Usage(f"{kind} {name}: {record.alias} has no such {kind}", hint=hint)
