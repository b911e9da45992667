"""What became of the runs of one cluster, as any command sees it and as it is written down.

What a command sees is settled here for all: unconfirmed ids, answers that were lost, secrets that
are no longer needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from jobgen.app.array_submission import lacks_jobs, submit_arrays
from jobgen.app.context import RunContext
from jobgen.app.lost_arrays import find_unlisted, forget_lost
from jobgen.app.polling import Poll, ask_cluster, group_by_scheduler
from jobgen.app.submission_driver import perform, settle
from jobgen.errors import Unreachable
from jobgen.model.chain import read_chain
from jobgen.model.race import decide_race, find_winner, find_winner_shape
from jobgen.model.record import JobState, RunRecord
from jobgen.submission import scripts
from jobgen.submission.markers import Markers
from jobgen.submission.outcome import (
    Seen,
    compute_changes,
    count_elements,
    list_states,
)
from jobgen.submission.record_changes import list_changes
from jobgen.submission.states import Effect, Phase, Sighting, State
from jobgen.submission.transitions import step

if TYPE_CHECKING:
    from jobgen.ledger import Change
    from jobgen.model.record_data import RecordChanges, Submission

SILENCE = 60.0
"""Seconds between two complaints that the scheduler does not answer."""


def refresh(records: Sequence[RunRecord], context: RunContext) -> tuple[RunRecord, ...]:
    """These runs of one site as they are now; the ledger has been told.

    Raises Unreachable where the connection is lost. A scheduler that does not answer changes
    nothing: what was last heard stays, and is said to be old.
    """
    if not records:
        return ()
    context = replace(context, sleep=lambda _: None, patience=0.0)
    news = {r.token: _taken_up(r, context) for r in records if not r.settled}
    for asked in group_by_scheduler(
        [r for r in news.values() if r.job is not None and not r.settled]
    ):
        look = ask_cluster(asked, context.transport)
        heard = [_forget_lost(r, look, context) for r in _heard(asked, look, context)]
        news |= {r.token: r for r in _settled(heard, look, context)}
        unsent = [news[r.token] for r in heard if _is_unsent(news[r.token])]
        news |= {r.token: submit_arrays(r, context) for r in unsent}
        _sweep(heard, news, look)
    return tuple(news.get(r.token, r) for r in records)


def _forget_lost(record: RunRecord, look: Poll, context: RunContext) -> RunRecord:
    """The run without arrays of its sweep, or entries of its race, that the scheduler took and
    lost."""
    if not look.answered or not look.read(record):
        return record
    marks = look.marks[record.directory]
    unlisted = find_unlisted(record, look.queue, marks)
    lost = forget_lost(record, unlisted, look.now, context) if unlisted else None
    if lost is None or not lost.numbers:
        return record
    kept = {n: job for n, job in marks.arrays.items() if n not in lost.numbers}
    look.marks[record.directory] = replace(marks, arrays=kept, arrays_failed=lost.failure)
    submission: Submission = {**record.submission, "arrays": kept}
    submission.pop("arrays_failed", None)
    return context.ledger.update(record.token, submission=submission)


def _is_unsent(record: RunRecord) -> bool:
    """Whether a process that was submitting further jobs of a run may have left some to others."""
    known = "arrays_failed" in record.submission or State.of(record).cancel
    return not record.ended and not known and lacks_jobs(record)


def _heard(asked: Sequence[RunRecord], look: Poll, context: RunContext) -> Sequence[RunRecord]:
    """The runs that were asked about; what gave no answer is reported."""
    if not look.answered:
        return _silent(asked, context, "the scheduler does not answer")
    unread = [r for r in asked if not look.read(r)]
    if not unread:
        return asked
    names = ", ".join(r.directory for r in unread[:3])
    read = [r for r in asked if look.read(r)]
    return [*read, *_silent(unread, context, f"cannot read all of {names}/state")]


def _silent(records: Sequence[RunRecord], context: RunContext, why: str) -> Sequence[RunRecord]:
    """Report that these runs gave no answer: once a minute, however often they are asked."""
    told = max(float(r.submission.get("silent", 0.0)) for r in records)
    if 0 <= context.now() - told < SILENCE:
        return records
    context.say(f"{records[0].site.cluster}: {why}; showing cached state")
    return context.ledger.update_all(
        [
            (r.token, {"submission": {**r.submission, "silent": context.now()}}, None)
            for r in records
        ]
    )


def _taken_up(record: RunRecord, context: RunContext) -> RunRecord:
    """A submission that another process left unfinished is gone on with."""
    return settle(record, context) if State.of(record).phase.open else record


def _settled(records: Sequence[RunRecord], look: Poll, context: RunContext) -> Sequence[RunRecord]:
    """The runs after this look, written down in one commit; then what has to be sent is sent."""
    changes: list[Change] = []
    follow_up: list[tuple[RunRecord, State, tuple[Effect, ...]]] = []
    for known in records:
        record = look.follow(decide_race(known, look.get_claim(known)))
        seen = look.of(record)
        changed, state, effects = _judged(record, seen, look)
        if read_chain(record.shape):
            changed = {**changed, "job": seen.queue.job if seen.queue else record.job}
        if effects:
            follow_up.append((record, state, effects))
        shape = find_winner_shape(record._replace(**changed))
        if shape != record.shape:
            changed = {**changed, "shape": shape}
        answered = look.answered and look.read(record)
        fields = {**changed, "updated": context.now()} if answered else changed
        if fields:
            changes.append((record.token, fields, _event(record, changed)))
    written = {r.token: r for r in context.ledger.update_all(changes)} if changes else {}
    for record, state, effects in follow_up:
        if state.phase.open:
            written[record.token] = settle(written[record.token], context)
        else:
            perform(record, state, effects, context)
    return [written.get(record.token, record) for record in records]


def _judged(
    record: RunRecord, seen: Seen, look: Poll
) -> tuple[RecordChanges, State, tuple[Effect, ...]]:
    """The fields that change, and the state of the submission: an id may be confirmed or void."""
    before = State.of(record)
    sighting = Sighting(
        seen.now,
        seen.answered,
        queued=seen.queue is not None,
        past=seen.past is not None and seen.past.state.final,
        claim=seen.markers.claim,
        min_job_age=look.min_job_age,
        cancel=seen.markers.cancel,
    )
    state, effects = step(before, sighting)
    submission = _submission(record, seen, state)
    lost = state.job != before.job and find_winner(record) is None
    if lost or state.phase in (Phase.CANCELLED, Phase.LOST, Phase.REJECTED):
        return {**list_changes(state, record), "submission": submission}, state, effects
    changed = compute_changes(record._replace(submission=submission), seen)
    if state.job != before.job:
        changed = {**list_changes(state, record), **changed}
    if submission != record.submission:
        changed.setdefault("submission", submission)
    return changed, state, effects


def _submission(record: RunRecord, seen: Seen, state: State) -> Submission:
    """What is kept beside the state: what the job, its ranks and its preflight recorded."""
    submission: Submission = {**record.submission, "state": state.data()}
    if seen.queue is not None:
        submission.pop("gone", None)
        submission["queued"] = seen.now
    if seen.answered:
        submission.pop("silent", None)
    if (total := record.shape.get("elements")) and seen.answered:
        submission["elements"] = count_elements(total, seen)
        submission["element_states"] = list_states(seen)
    return {**submission, **_list_records(seen.markers), **seen.markers.list_arrays()}


def _list_records(marks: Markers) -> Submission:
    """What the markers tell of the job, as JSON keeps it."""
    records: Submission = {}
    if marks.report:
        records["report"] = dict(marks.report)
    if marks.unfit:
        records["preflight"] = [list(row) for row in marks.unfit]
    if marks.failures:
        records["failures"] = [list(row) for row in marks.failures]
    if marks.steps:
        records["steps"] = [list(row) for row in marks.steps]
    if marks.codes:
        records["codes"] = [list(row) for row in marks.codes]
    if marks.silences:
        records["silences"] = [list(row) for row in marks.silences]
    return records


def _event(record: RunRecord, changed: RecordChanges) -> tuple[str, str] | None:
    state, ended = changed.get("state", record.state), changed.get("ended", record.ended)
    if (state, ended) == (record.state, record.ended):
        return None
    where = f" on {changed['nodes']}" if changed.get("nodes") else ""
    how = ""
    if ended:
        from jobgen.diagnose.exit_codes import describe_job_exit

        end = describe_job_exit(changed.get("exit") or "", cancelled=state is JobState.CANCELLED)
        how = f", {end}" if end else ""
    reason = changed.get("reason")
    why = f" ({reason})" if reason else ""
    again = f", start {changed['restarts'] + 1}" if changed.get("restarts") else ""
    text = f"{state}{where if state is JobState.RUNNING else ''}{again}{how}{why}"
    return JobState(state).lower(), text


def _sweep(asked: Sequence[RunRecord], news: Mapping[str, RunRecord], look: Poll) -> None:
    """Secrets of runs that have ended are removed; who cannot be reached is tried no further."""
    over = [
        (r.directory, r.token)
        for r in asked
        if news[r.token].ended and look.marks.get(r.directory, Markers()).secrets
    ]
    if over:
        try:
            look.transport.call(scripts.sweep(over))
        except Unreachable:
            return
