"""What the scripts answered, as facts of the submission; and what a state is to the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobgen.errors import JobgenError, Refused, Unreachable
from jobgen.model.record import JobId, JobState, RunRecord
from jobgen.scheduler import Found, Scheduler
from jobgen.shell import Command, Result, split_lines
from jobgen.submission import wire
from jobgen.submission.states import Mark, Missing, Phase, Report, Resolved, Staged, State

if TYPE_CHECKING:
    from jobgen.model.record_data import RecordChanges

PAST_DAYS = 2
"""How far back the accounting is searched for a run whose answer was lost."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The other side could not do it: its own words, and what to do."""

    text: str
    hint: str = ""


def staged(result: Result) -> Staged | Failure:
    """What ``stage`` said."""
    try:
        told = wire.table(wire.frames(result.out))
    except wire.GarbledError:
        return Failure(_noise(result))
    if "failed" in told:
        return _failure(told)
    if "staged" not in told or not told.get("directory", "").startswith("/"):
        return Failure(_noise(result))
    now = wire.number(told.get("now", "")) or 0.0
    return Staged(told["directory"], now, told.get("shared", ""))


def started(result: Result, scheduler: Scheduler, attempt: int) -> Report | Missing | Failure:
    """What ``start`` said. An answer that makes no sense knows nothing of the attempt."""
    try:
        told = wire.table(wire.frames(result.out))
    except wire.GarbledError:
        return Report(attempt, 0.0)
    if "failed" in told:
        return _failure(told)
    return Missing() if "missing" in told else _report(told, scheduler, attempt)


def questions(scheduler: Scheduler) -> dict[str, Command]:
    """What is asked of the scheduler about an unclear attempt."""
    asked = {"find": scheduler.find(), "config": scheduler.configuration()}
    past = scheduler.find_past(PAST_DAYS)
    return asked if past is None else {**asked, "past": past}


def resolved(result: Result, scheduler: Scheduler, attempt: int, token: str) -> Resolved | Missing:
    """What ``resolve`` and its questions said."""
    try:
        told = wire.table(wire.frames(result.out))
    except wire.GarbledError:
        return Resolved(Report(attempt, 0.0), alive=True)
    if "missing" in told:
        return Missing()
    settings = scheduler.settings(wire.answer(told, "config"))
    found = scheduler.found(wire.answer(told, "find"))
    past = scheduler.found(wire.answer(told, "past"))
    return Resolved(
        _report(told, scheduler, attempt),
        alive=told.get("alive") != "no",
        found=None if found is None else _ours(found, token),
        past=_ours(past or (), token),
        ttl=float(settings.ttl),
        message_timeout=float(settings.message_timeout),
    )


def claim(text: str) -> JobId | None:
    """The job id that a claim link names."""
    try:
        return JobId.parse(text)
    except ValueError:
        return None


def shown(state: State, record: RunRecord) -> RecordChanges:
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


def told(before: State, state: State) -> tuple[str, str] | None:
    """The event of a step, as (kind, text); None where nothing happened that matters later."""
    if (before.phase, before.attempt, before.job) == (state.phase, state.attempt, state.job):
        return None
    texts: Mapping[Phase, str] = {
        Phase.STAGED: f"files are in {state.directory}",
        Phase.SUBMITTING: f"sbatch, attempt {state.attempt}",
        Phase.RESOLVING: f"the answer to attempt {state.attempt} is not clear; looking into it",
        Phase.SUBMITTED: f"accepted as {state.job}",
        Phase.CONFIRMED: f"confirmed as {state.job}",
        Phase.REJECTED: state.why,
        Phase.CANCELLED: "cancelled before it was submitted",
        Phase.LOST: state.why,
    }
    return (state.phase.lower(), texts[state.phase]) if state.phase in texts else None


def why_not(state: State, record: RunRecord) -> JobgenError:
    """The error that tells why a run has no job id after all that was tried."""
    if state.phase is Phase.REJECTED and state.gave_up:
        return JobgenError(f"{record.alias}: {state.why}", hint="submit it again if it is wanted")
    if state.phase is Phase.REJECTED:
        return Refused(
            f"{record.site.cluster} refused {record.alias}: {state.why}",
            hint="nothing was queued; change the job or the profile and submit again",
        )
    if state.phase is Phase.LOST:
        return JobgenError(f"{record.alias}: {state.why}", hint="submit it again if it is wanted")
    return Unreachable(
        f"{record.site.cluster} gave no clear answer to sbatch for {record.alias}",
        hint=f"it may be queued; jobgen show {record.alias} goes on looking, and it is never "
        "submitted twice",
    )


def _report(told: Mapping[str, str], scheduler: Scheduler, attempt: int) -> Report:
    code = wire.number(told.get("rc", ""))
    out, err = told.get("out", "").encode(), told.get("err", "").encode()
    answer = Result(255 if code is None else int(code), out, err)
    return Report(
        attempt,
        wire.number(told.get("now", "")) or 0.0,
        host=told.get("host", ""),
        mark=_mark(told.get("attempt", "")),
        code=None if code is None else int(code),
        ended=wire.number(told.get("ended", "")) or 0.0,
        printed=scheduler.submitted(answer),
        recorded=claim(told.get("jobid", "")),
        claim=claim(told.get("claim", "")),
        refused=code is not None and scheduler.refused(answer),
        error=err.decode().strip(),
        cancel="cancel" in told,
    )


def _mark(text: str) -> Mark | None:
    host, _, rest = text.rpartition(".")[0].rpartition(".")
    time = text.rpartition(".")[2]
    if not host or not rest.isdigit() or not time.isdigit():
        return None
    return Mark(host, int(rest), float(time))


def _ours(found: Sequence[Found], token: str) -> tuple[JobId, ...]:
    return tuple(each.job for each in found if each.of(token))


def _failure(told: Mapping[str, str]) -> Failure:
    text = told["failed"].strip() or "the other side could not do it"
    lowered = text.lower()
    free = told.get("free", "").split()
    if "no space left" in lowered or "quota" in lowered:
        room = f"; free there: {int(free[3]) // 1024} MiB" if _is_df(free) else ""
        where = free[-1] if _is_df(free) else "that file system"
        return Failure(f"the remote disk is full: {text}{room}", f"make room on {where}")
    if "permission denied" in lowered or "read-only" in lowered:
        return Failure(text, "look at paths.root in the cluster profile: it must be yours to write")
    if "has no sticky bit" in lowered:
        return Failure(text, "set paths.root to a directory that only you may change")
    if "is not set there" in lowered:
        return Failure(text, "paths.root in the cluster profile uses it; write the path out")
    return Failure(text)


def _is_df(words: Sequence[str]) -> bool:
    return len(words) >= 6 and words[3].isdigit()


def _noise(result: Result) -> str:
    text = split_lines((result.error_text or result.text).strip())
    said = f": {text[-1][:200]}" if text else ""
    return f"the other side gave no usable answer (exit code {result.code}){said}"
