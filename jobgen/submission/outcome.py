"""What became of a run: the scheduler's words and the job's own markers, put together. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeGuard

from jobgen.model.array import fold_indexes
from jobgen.model.chain import read_chain
from jobgen.model.observation import Observation
from jobgen.model.race import find_time_limit
from jobgen.model.record import JobState, RunRecord
from jobgen.submission.markers import Ended, Markers

if TYPE_CHECKING:
    from jobgen.model.record_data import RecordChanges, Submission

UNSURE = (JobState.NODE_FAIL, JobState.PREEMPTED, JobState.BOOT_FAIL)
"""Final words that a requeue may take back: believed when two looks agree."""
SECOND_LOOK = 10.0
"""Seconds between two looks at a job that has vanished, before it is said to be lost."""
LAGGING = 600.0
"""The same where the accounting knows the job and not yet its end."""
SILENT = 3600.0
"""The same where there is an accounting, and it does not answer."""
NEAR_LIMIT = 60
"""Seconds: Slurm's time limits are kept to the minute."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One look at a run: everything that was heard at one time."""

    now: float
    """Of the other side's clock."""
    answered: bool
    """Whether the scheduler answered."""
    queue: Observation | None = None
    past: Observation | None = None
    silent: bool = False
    """There is an accounting, and it did not answer."""
    markers: Markers = field(default_factory=Markers)
    alive: bool = False
    """A job that the scheduler does not know has written to its logs in the last minutes."""
    min_job_age: float = 0.0
    """Seconds for which the queue keeps a job that has ended; 0 where it is not known."""
    elements: Mapping[str, JobState] = field(default_factory=dict)
    """Of an array: element → its state; under "" that of those that have not started."""
    packed: JobState | None = None
    """Of a packed sweep: the state of the job that its elements share."""


def compute_changes(record: RunRecord, seen: Seen) -> RecordChanges:
    """The fields of the record that this look changes; empty where it brought no news."""
    if seen.queue is not None:
        return _queued(record, seen.queue, seen.markers)
    if not seen.answered:
        return {}
    if seen.past is not None and seen.past.state.final:
        return _final(record, seen.past, seen.markers)
    end = seen.markers.end
    if end is not None and not lacks_elements(record, seen.markers):
        return _by_marker(record, end, seen.markers)
    return _vanished(record, seen)


def lacks_elements(record: RunRecord, marks: Markers) -> bool:
    """Whether elements of a packed sweep have no end: the ends of others prove nothing."""
    if not record.shape.get("packed"):
        return False
    return len(marks.newest.keys() | marks.cancelled) < int(record.shape.get("elements", 0))


def _queued(record: RunRecord, seen: Observation, marks: Markers) -> RecordChanges:
    if seen.state.final:
        return _final(record, seen, marks)
    return {
        **_common(seen, marks),
        "state": seen.state,
        "ended": False,
        "reason": seen.reason if seen.state is not JobState.RUNNING else "",
    }


def _final(record: RunRecord, seen: Observation, marks: Markers) -> RecordChanges:
    """The scheduler says that it has ended."""
    state, end = seen.state, marks.end
    reason = "" if state in _NO_REASON or seen.reason in _EMPTY_REASONS else seen.reason
    if state is JobState.COMPLETED and marks.cancel and not marks.started:
        state, reason = JobState.CANCELLED, "cancelled before it started"
    elif state is JobState.COMPLETED and end is not None and end.code:
        # Slurm can start a job again after a crash; the copy looks around and ends with 0
        state, reason = JobState.FAILED, "Slurm started it again after it had ended"
    elif state is JobState.COMPLETED and _lacks_next(record, marks):
        state, reason = JobState.CANCELLED, "" if marks.cancel else _NO_NEXT
    elif state in _FORGETFUL and _has_finished(end, record):
        # a controller that crashed has forgotten the end, and lost the job or its node
        state = JobState.FAILED if end.code else JobState.COMPLETED
    if state is JobState.FAILED and not reason:
        reason = end.why if end is not None else _why_failed(seen, marks)
    ended = state not in UNSURE or (record.state is state and record.raw == seen.raw)
    code = seen.exit if state is seen.state else ""
    code = code or (f"{end.code}:0" if end is not None else "")
    return {
        **_common(seen, marks),
        "state": state,
        "reason": reason if ended else "Slurm may requeue it",
        "ended": ended,
        "exit": code or record.exit,
        "left": None,
    }


def _has_finished(end: Ended | None, record: RunRecord) -> TypeGuard[Ended]:
    """Whether the script ended by itself; the elements of an array are not all known."""
    return end is not None and not end.killed and not record.shape.get("elements")


def _why_failed(seen: Observation, marks: Markers) -> str:
    """Why the script failed and left no exit code."""
    if marks.full:
        return _FULL
    if not marks.started:
        return _NO_TRACE
    return _AGAIN if seen.exit == "96:0" else ""


def _lacks_next(record: RunRecord, marks: Markers) -> bool:
    """Whether the newest start of a chain ended to be resumed by a job that never started."""
    return read_chain(record.shape) > 0 and ("0", marks.restarts) in marks.requeued


_NO_NEXT = (
    "stopped before its end, and the next job of the chain left the queue: possibly cancelled with"
    " scancel"
)
_AGAIN = "the first start was killed without an exit code, and Slurm started the job again"
_NO_TRACE = "the script wrote nothing to the run directory: it never started, or was killed at once"
_ALIVE = "the scheduler does not list it, but its logs changed in the last two minutes"
_FULL = "could not record its end: the disk of the run directory is full, or over quota"
_NO_REASON = (JobState.COMPLETED, JobState.CANCELLED)
"""Of these the queue still tells why they had waited."""
_FORGETFUL = (JobState.CANCELLED, JobState.NODE_FAIL)
"""What Slurm calls a job whose end it does not remember."""
_EMPTY_REASONS = ("NonZeroExitCode", "JobLaunchFailure")
"""Said of scripts that ran and failed; 22.05 says the second of a script that was killed."""


def _by_marker(record: RunRecord, end: Ended, marks: Markers) -> RecordChanges:
    """Gone from the queue, no accounting: the script's own last words."""
    state = JobState.FAILED if end.code else JobState.COMPLETED
    reason = end.why
    if end.killed and marks.cancel:
        state = JobState.CANCELLED
    elif end.killed:
        limit = find_time_limit(record)
        if limit and marks.ran is not None and marks.ran >= limit - NEAR_LIMIT:
            state = JobState.TIMEOUT
        reason = "ended by the time limit, scancel or preemption"
    return {
        "state": state,
        "raw": "",
        "reason": reason,
        "exit": f"{end.code}:0",
        "ended": True,
        "elapsed": marks.ran if marks.ran is not None else record.elapsed,
        "left": None,
        "restarts": marks.restarts,
    }


def _vanished(record: RunRecord, seen: Seen) -> RecordChanges:
    """Neither in the queue, nor in the accounting, and it left no word."""
    if seen.alive:
        submission: Submission = {**record.submission, "gone": seen.now}
        unknown: RecordChanges = {"state": JobState.UNKNOWN, "raw": "", "ended": False}
        return {**unknown, "submission": submission, "reason": _ALIVE}
    since = record.submission.get("gone")
    patience = LAGGING if seen.past is not None else SECOND_LOOK
    patience = SILENT if seen.silent else patience
    # the queue forgets no job at once: one that it listed a moment ago may be listed again
    queued = float(record.submission.get("queued", 0.0))
    if since is None or seen.now - since < patience or seen.now - queued < seen.min_job_age:
        first = seen.now if since is None else since
        return {"submission": {**record.submission, "gone": first}}
    lost: RecordChanges = {"state": JobState.LOST, "raw": "", "ended": True, "left": None}
    if seen.markers.cancel:
        how = "no exit code" if seen.markers.started else "before it started"
        return {**lost, "state": JobState.CANCELLED, "reason": f"cancelled; {how}"}
    return {**lost, "reason": _why_lost(seen.markers)}


def _why_lost(marks: Markers) -> str:
    if marks.missing:
        return "the run directory is gone, and the scheduler no longer lists the job"
    if not marks.started:
        return "left the queue before it started: possibly cancelled with scancel"
    if marks.requeued and max(marks.requeued)[1] >= marks.restarts:
        return "requeued, and left the queue before it started again"
    if marks.full:
        return _FULL
    return (
        "killed without an exit code, and accounting has no record: time limit, out of memory,"
        " a failed node, or a crash of slurmctld"
    )


def _common(seen: Observation, marks: Markers) -> RecordChanges:
    return {
        "raw": seen.raw,
        "nodes": seen.nodes,
        "started": seen.start,
        "elapsed": seen.elapsed,
        "left": seen.left,
        "restarts": max(marks.restarts, seen.restarts),
    }


def count_elements(total: int, seen: Seen) -> dict[str, int]:
    """How many elements of an array are in each state, by the scheduler and their markers."""
    states = _state_elements(seen)
    counts = Counter(states.values())
    if total > len(states):
        counts[seen.elements.get("", JobState.UNKNOWN)] += total - len(states)
    return {str(state): count for state, count in counts.items()}


def list_states(seen: Seen) -> dict[str, str]:
    """State → the elements of an array that are in it, as ``3,7-9``; not those that wait."""
    states: dict[str, list[int]] = {}
    for task, state in _state_elements(seen).items():
        if task.isdigit():
            states.setdefault(str(state), []).append(int(task))
    return {state: fold_indexes(sorted(tasks)) for state, tasks in states.items()}


def _state_packed(seen: Seen, job: JobState) -> dict[str, JobState]:
    """The state of each element that a worker has taken, or that was cancelled before."""
    marks = seen.markers
    states = dict.fromkeys(marks.cancelled, JobState.CANCELLED)
    for task, restart in marks.newest.items():
        end = marks.exits.get((task, restart))
        if end is not None and not end.killed:
            states[task] = JobState.FAILED if end.code else JobState.COMPLETED
        elif task not in states or (end is None and not job.final):
            # one that was killed runs again, unless the job has ended
            states[task] = job if end is None or job.final else JobState.PENDING
    return states


def _state_elements(seen: Seen) -> dict[str, JobState]:
    """The state of each element that has started, by the scheduler and by its markers."""
    if seen.packed is not None:
        return _state_packed(seen, seen.packed)
    states = {task: state for task, state in seen.elements.items() if task}
    for task, restart in seen.markers.newest.items():
        end = seen.markers.exits.get((task, restart))
        if end is not None:
            ended = JobState.FAILED if end.code else JobState.COMPLETED
            states.setdefault(task, JobState.CANCELLED if end.killed else ended)
        else:
            states.setdefault(task, JobState.UNKNOWN)
    return states
