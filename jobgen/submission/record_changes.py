"""What a submission's state is to the run database and to a person: fields, event, error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from jobgen.errors import JobgenError, Refused, Unreachable
from jobgen.model.record import JobState, RunRecord
from jobgen.submission.states import Phase, State

if TYPE_CHECKING:
    from jobgen.model.record_data import RecordChanges


def list_changes(state: State, record: RunRecord) -> RecordChanges:
    """The fields of the record that follow from a submission's state."""
    changes: RecordChanges = {"directory": state.directory or record.directory}
    if state.phase is Phase.PLANNED:
        return changes
    if state.phase in _STATES:
        ended = state.phase.value in JobState.__members__ and JobState(state.phase.value).final
        return {
            **changes,
            "job": state.job,
            "state": _STATES[state.phase],
            "reason": state.why,
            "ended": ended,
        }
    changes["job"] = state.job
    if record.state in (JobState.PLANNED, JobState.SUBMITTING):
        changes |= {"state": JobState.PENDING, "reason": ""}
    return changes


_STATES = {
    Phase.STAGED: JobState.PLANNED,
    Phase.SUBMITTING: JobState.SUBMITTING,
    Phase.RESOLVING: JobState.SUBMITTING,
    Phase.REJECTED: JobState.REJECTED,
    Phase.CANCELLED: JobState.CANCELLED,
    Phase.LOST: JobState.LOST,
}


def describe_step(before: State, state: State, *, inside: bool = False) -> tuple[str, str] | None:
    """The event of a step, as (kind, text); None where nothing happened that matters later.

    ``inside``: the run is a step of an allocation.
    """
    if (before.phase, before.attempt, before.job) == (state.phase, state.attempt, state.job):
        return None
    texts: Mapping[Phase, str] = {
        Phase.STAGED: f"files are in {state.directory}",
        Phase.SUBMITTING: f"{'srun' if inside else 'sbatch'}, attempt {state.attempt}",
        Phase.RESOLVING: f"the result of attempt {state.attempt} is unclear; checking",
        Phase.SUBMITTED: f"accepted as job {state.job}",
        Phase.CONFIRMED: f"confirmed as job {state.job}",
        Phase.REJECTED: state.why,
        Phase.CANCELLED: "cancelled before it was submitted",
        Phase.LOST: state.why,
    }
    if inside and state.phase is Phase.SUBMITTED:
        return state.phase.lower(), f"started inside job {state.job}"
    return (state.phase.lower(), texts[state.phase]) if state.phase in texts else None


def explain_end(state: State, record: RunRecord) -> JobgenError:
    """The error that tells why a run has no job id after all that was tried."""
    if state.phase is Phase.REJECTED and state.gave_up:
        return JobgenError(
            f"{record.alias}: {state.why}", hint="submit it again if you still need it"
        )
    if state.phase is Phase.REJECTED:
        return Refused(
            f"{record.site.cluster} rejected {record.alias}: {state.why}",
            hint="nothing was queued; change the job or the profile and submit again",
        )
    if state.phase is Phase.LOST:
        return JobgenError(
            f"{record.alias}: {state.why}", hint="submit it again if you still need it"
        )
    return Unreachable(
        f"no clear answer from {record.site.cluster} to sbatch for {record.alias}",
        hint=(
            f"it may be queued; check again with jobgen show {record.alias}; it is never "
            "submitted twice"
        ),
    )


def explain_unclear(record: RunRecord, lost: JobgenError, hint: str) -> Unreachable:
    """The error of an attempt whose answer was ``lost``."""
    unclear = f"it is not known yet whether {record.site.cluster} accepted {record.alias}"
    return Unreachable(*lost.problems, unclear, hint=f"{hint}; it is never submitted twice")
