"""Why a job failed: its logs and event record, read once after its end, and kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobgen.errors import JobgenError
from jobgen.model.record import JobState, RunRecord

if TYPE_CHECKING:
    from jobgen.app.world import World
    from jobgen.model.record_data import Submission
    from jobgen.transport import Transport

_FAILED = frozenset({JobState.FAILED, JobState.TIMEOUT, JobState.OUT_OF_MEMORY})
"""How jobs end whose logs hold the cause."""


def is_unexplained(record: RunRecord) -> bool:
    """Whether the logs of this run should be read for the cause."""
    kept = record.submission.get("cause")
    # the elements of an array start again each by itself
    same = not kept or kept[_START] == record.restarts + 1 or bool(record.elements)
    known = kept is not None and same
    explained = record.exit in _EXPLAINED and not record.failures
    failed = record.ended and record.state in _FAILED and not explained
    return failed and bool(record.directory) and not known


_EXPLAINED = frozenset({"96:0", "97:0", "98:0"})
"""Exit codes that the job's own scripts give, with the reason."""
_START = 6
"""Where a kept cause holds its start."""


def learn_causes(world: World, records: tuple[RunRecord, ...]) -> tuple[RunRecord, ...]:
    """The records, with the causes of those that failed and whose logs can be read."""
    return tuple(_learn(world, record) if is_unexplained(record) else record for record in records)


def _learn(world: World, record: RunRecord) -> RunRecord:
    try:
        with world.connect(record.site.login) as transport:
            return explain(world, transport, record)
    except JobgenError:
        return record


def explain(world: World, transport: Transport, record: RunRecord) -> RunRecord:
    """The record with the cause of its failure, which is kept. Raises Unreachable."""
    from jobgen.app.log_evidence import gather_run
    from jobgen.diagnose import find_cause
    from jobgen.diagnose.privacy import mask_cause

    evidence = gather_run(transport, record)
    if evidence is None:
        return record
    cause = find_cause(evidence)
    cause = cause and mask_cause(cause)
    submission: Submission = {**record.submission, "cause": list(cause) if cause else []}
    return world.ledger.update(record.token, submission=submission)
