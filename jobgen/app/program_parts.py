"""The programs of a run, which are its steps or groups: those that a person names, their ranks, and
the one that failed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jobgen.errors import Usage
from jobgen.model.record import JobState

if TYPE_CHECKING:
    from jobgen.model.events import StepRecord
    from jobgen.model.record import RunRecord

_ROUND = re.compile(r"-[1-9][0-9]*$")
"""What the name of a step has behind it where the steps run in rounds."""
_STOPPED_BY_SLURM = frozenset(
    {JobState.CANCELLED, JobState.TIMEOUT, JobState.DEADLINE, JobState.PREEMPTED}
)
_TERMINATED = 128 + 15
"""The exit code of what SIGTERM has ended."""


def require_parts(record: RunRecord, name: str) -> tuple[str, ...]:
    """The steps or groups of this name; of a step that runs in rounds, all its runs.

    Raises Usage if the run has none.
    """
    if name in record.steps:
        return (name,)
    parts = tuple(part for part in record.steps if _ROUND.sub("", part) == name)
    if parts:
        return parts
    kind = record.part_kind
    known = f"its {kind}s: {', '.join(record.steps)}"
    hint = known if record.steps else "it has one program, and no steps"
    raise Usage(f"{kind} {name}: {record.alias} has no such {kind}", hint=hint)


def count_part_ranks(record: RunRecord, parts: Sequence[str] = ()) -> int:
    """The ranks of one program, of these steps or groups, or of all groups; 0 if unknown.

    Groups have their ranks at the same time, steps one after another.
    """
    known = record.shape.get("part_ranks")
    if not known:
        return int(record.shape.get("nodes", 0)) * int(record.shape.get("ranks_per_node", 0))
    counts = [known.get(name, 0) for name in parts or record.steps]
    return sum(counts) if record.part_kind == "group" else max(counts, default=0)


def count_most_ranks(record: RunRecord, parts: Sequence[str] = ()) -> int:
    """The ranks of the largest of these steps or groups, by default of all; 0 if unknown."""
    chosen = parts or record.steps
    counts = (count_part_ranks(record, [part]) for part in chosen)
    return max(counts, default=count_part_ranks(record))


def describe_missing_rank(record: RunRecord, rank: int, parts: Sequence[str] = ()) -> str:
    """Why no program of these steps or groups has this rank; empty if one may have it."""
    count = count_most_ranks(record, parts)
    if not count or rank < count:
        return ""
    known = f"ranks 0-{count - 1}" if count > 1 else "only rank 0"
    some = f"{record.part_kind} {parts[0]} of " if len(parts) == 1 else ""
    return f"rank {rank}: {some}{record.alias} has {known}"


def find_failed_part(record: RunRecord) -> str:
    """The step or group whose failure ended the newest start; empty if none did."""
    newest = [run for run in record.step_runs if run.start == record.restarts + 1]
    return next((run.name for run in newest if run.code and not has_stopped(record, run)), "")


def has_stopped(record: RunRecord, run: StepRecord) -> bool:
    """Whether a step or group got SIGTERM when Slurm ended the job: it did not fail."""
    return run.code == _TERMINATED and record.state in _STOPPED_BY_SLURM
