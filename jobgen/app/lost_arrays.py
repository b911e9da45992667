"""Arrays of a large sweep, and entries of a race, that the scheduler took and lost in a crash."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING

from jobgen.model.array import read_indexes
from jobgen.model.race import is_undecided, list_entries
from jobgen.model.record import JobId, JobState
from jobgen.model.sweep_arrays import read_arrays
from jobgen.named_tuple import NamedTuple
from jobgen.scheduler import get_scheduler
from jobgen.submission import scripts, wire
from jobgen.submission.states import State

if TYPE_CHECKING:
    from jobgen.app.context import RunContext
    from jobgen.app.job_answers import RunAnswers
    from jobgen.model.record import RunRecord
    from jobgen.submission.markers import Markers

DEADLINE = 45.0
GONE = "Slurm no longer lists their array, and none of them started"
GONE_ENTRY = "Slurm no longer lists it, and it did not start"


class LostArrays(NamedTuple):
    """Arrays of a sweep, or entries of a race, that are put aside."""

    numbers: frozenset[str]
    failure: str = ""
    """Why they are not submitted again."""


def find_unlisted(record: RunRecord, queue: RunAnswers, marks: Markers) -> Mapping[str, JobId]:
    """Number → job of the arrays that the queue does not know, of which no element has begun or
    was cancelled; and of the later entries of a race that none has won. None of a run that is
    cancelled."""
    arrays = read_arrays(record.shape)
    if marks.cancel or State.of(record).cancel:
        return {}
    listed = {job.job for job in queue.of(record)}
    if is_undecided(record) and marks.claim is None:
        return _find_unlisted_entries(record, listed)
    begun = {int(task) for task in marks.newest if task.isdigit()}
    begun |= {
        index
        for state, indexes in record.element_states.items()
        if JobState.__members__.get(state, JobState.UNKNOWN).final
        for index in read_indexes(indexes)
    }
    known = {
        number: JobId.parse(job)
        for number, job in record.submission.get("arrays", {}).items()
        if int(number) < len(arrays)
    }
    return {
        number: job
        for number, job in known.items()
        if job.job not in listed and begun.isdisjoint(arrays[int(number)].list_elements())
    }


def _find_unlisted_entries(record: RunRecord, listed: Container[int]) -> Mapping[str, JobId]:
    """Number → job of entries that the queue does not know while it lists the job of the run: if
    all are lost, all are submitted again."""
    if record.job is None or record.job.job not in listed:
        return {}
    entries = enumerate(list_entries(record))
    return {
        str(number): entry.job
        for number, entry in entries
        if number and entry.job is not None and entry.job.job not in listed
    }


def forget_lost(
    record: RunRecord, unlisted: Mapping[str, JobId], now: float, context: RunContext
) -> LostArrays:
    """Put aside those of these arrays that the accounting does not know, either.

    They are missing again, and so submitted again, if Slurm would still list them had they ended.
    Raises Unreachable.
    """
    nothing = LostArrays(frozenset())
    scheduler = get_scheduler(record.site)
    asked = {"config": scheduler.show_config()}
    history = scheduler.query_history(tuple(unlisted.values()))
    asked |= {"past": history} if history is not None else {}
    result = context.transport.call(scripts.command(asked), deadline=DEADLINE)
    try:
        reply = wire.index(wire.split_frames(result.out))
    except wire.GarbledError:
        return nothing
    config = wire.read_answer(reply, "config")
    settings = scheduler.parse_config(config)
    past = scheduler.parse_history(wire.read_answer(reply, "past"))
    if config.code or (past is None and settings.accounting is not False):
        return nothing
    ended = {job.job for job, seen in (past or {}).items() if seen.state.final}
    lost = {number: job for number, job in unlisted.items() if job.job not in ended}
    young = now - State.of(record).accepted < settings.min_job_age
    failure = "" if young else describe_loss(record, lost)
    pairs: Sequence[str] = [f"{number}={job}" for number, job in lost.items()]
    if pairs:
        text = scripts.lose_arrays(record.directory, record.token, failure, pairs)
        context.transport.call(text, deadline=DEADLINE)
    return LostArrays(frozenset(lost), failure if pairs else "")


def describe_loss(record: RunRecord, lost: Mapping[str, JobId]) -> str:
    """Why these jobs are missing; of a race, a line for each entry, with those that were refused
    before."""
    if not is_undecided(record):
        return GONE
    failures = {str(n): entry.failure for n, entry in enumerate(list_entries(record))}
    failures |= dict.fromkeys(lost, GONE_ENTRY)
    return "\n".join(f"{number} {why}" for number, why in failures.items() if why)
