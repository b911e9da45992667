"""``step(state, fact)``: the next state, and what is to be done once it is written down."""

from __future__ import annotations

from dataclasses import replace

from jobgen.model.record import JobId
from jobgen.submission.states import (
    Begin,
    Bury,
    CancelAsked,
    Discard,
    Drop,
    Effect,
    Fact,
    Phase,
    Record,
    Report,
    Resolve,
    Resolved,
    RunDirectoryMissing,
    Sighting,
    Stage,
    Staged,
    Start,
    State,
)

ATTEMPTS = 3
"""After so many attempts that were never accepted it is a matter for a person."""
STARTS = 5
"""So often one attempt is started that leaves no mark in the run directory."""
SPARE = 60.0
"""Seconds beyond the life of a credential before an attempt is held to be dead."""
STALE = 3600.0
"""Seconds after the upload for which an attempt is still made without asking anybody."""
SETTLED = 10.0
"""Seconds after which the controller has saved its state, so that a sighting counts."""
SBATCH_RETRIES = 120.0
"""Seconds that sbatch's own retries sleep at most: 1 + … + 15 (src/sbatch/sbatch.c)."""
POLLS = (1.0, 2.0, 3.0, 5.0, 10.0, 15.0, 30.0)

Step = tuple[State, tuple[Effect, ...]]


def step(state: State, fact: Fact) -> Step:
    """The next state, and its effects, of which only the last brings back a fact."""
    if isinstance(fact, Begin):
        return _begin(state)
    if isinstance(fact, CancelAsked):
        return _cancel(state)
    if isinstance(fact, RunDirectoryMissing):
        return _missing(state)
    if isinstance(fact, Staged):
        return _staged(state, fact)
    return _answered(state, fact)


def _answered(state: State, fact: Report | Resolved | Sighting) -> Step:
    """What came back about an attempt or a job; an answer to an older question is dropped."""
    if isinstance(fact, Sighting):
        if state.job is None or state.phase not in (Phase.SUBMITTED, Phase.CONFIRMED):
            return state, ()
        return _sighting(state, fact)
    report = fact.report if isinstance(fact, Resolved) else fact
    wanted = Phase.RESOLVING if isinstance(fact, Resolved) else Phase.SUBMITTING
    if state.phase is not wanted or report.attempt != state.attempt:
        return state, ()
    return _resolved(state, fact) if isinstance(fact, Resolved) else _report(state, fact)


def _begin(state: State) -> Step:
    if state.phase is Phase.PLANNED:
        # an upload that was broken off may have left something
        gone = _end(state, Phase.CANCELLED), (Discard(),)
        return gone if state.cancel else (state, (Stage(),))
    if state.phase is Phase.STAGED:
        if state.cancel:
            return _end(state, Phase.CANCELLED), (Bury(),)
        return _attempt(state, 1)
    if state.phase in (Phase.SUBMITTING, Phase.RESOLVING):
        # what another process began: look before anything is repeated
        return _look(state)
    return state, ()


def _cancel(state: State) -> Step:
    if state.phase in (Phase.REJECTED, Phase.CANCELLED, Phase.LOST):
        return state, ()
    return replace(state, cancel=True), ()


def _staged(state: State, fact: Staged) -> Step:
    if state.phase is not Phase.PLANNED:
        return state, ()
    new = replace(state, phase=Phase.STAGED, directory=fact.directory, staged=fact.now)
    return new, ()


def _report(state: State, fact: Report) -> Step:
    """The answer to Start."""
    return _verdict(state, fact) or _look(state)


def _resolved(state: State, fact: Resolved) -> Step:
    """The answer to Resolve."""
    report = fact.report
    verdict = _verdict(state, report, fact.jobs or (), fact.past)
    if verdict is not None:
        return verdict
    if report.mark is None:
        return _not_begun(state, fact)
    state = replace(state, died=_died(state, fact))
    if fact.alive or fact.jobs is None or not state.died:
        return _look(state, report.now - report.mark.time)
    dead_for = report.now - state.died
    if dead_for <= fact.ttl + SPARE:
        return _look(state, dead_for)
    # nothing that this attempt sent can be accepted any more, and nothing of it is there
    return _next(state, report, "never accepted")


def _verdict(
    state: State, report: Report, found: tuple[JobId, ...] = (), past: tuple[JobId, ...] = ()
) -> Step | None:
    """An id, or a definite refusal; None where neither is known."""
    ids = _ids(state, report, *found, *past)
    if ids:
        return _accept(state, report, ids, found)
    if report.refused:
        return _end(state, Phase.REJECTED, report.error), (Discard(),)
    return None


def _not_begun(state: State, fact: Resolved) -> Step:
    """No mark: sbatch has not run for this attempt."""
    report = fact.report
    if state.cancel or report.cancel:
        return _end(state, Phase.CANCELLED), (Bury(),)
    if report.now > state.staged + STALE:
        return _give_up(state, "it was never sent to the scheduler, and is too old to be sent now")
    if fact.alive:
        return _look(state, 0.0)
    if state.starts >= STARTS:
        return _give_up(state, "sbatch could not be started: cannot write to the run directory")
    return _attempt(state, state.attempt, starts=state.starts + 1)


def _died(state: State, fact: Resolved) -> float:
    """Since when nothing of this attempt can send a request; 0 where it still may."""
    report, mark = fact.report, fact.report.mark
    if report.code is not None:
        return report.ended
    if mark is None or fact.alive:
        return 0.0
    if mark.host == report.host:
        return state.died or report.now
    # another login host: its processes cannot be seen from here, so its worst case it is
    return mark.time + SBATCH_RETRIES + 16 * fact.message_timeout


def _accept(
    state: State, report: Report, ids: tuple[JobId, ...], found: tuple[JobId, ...] = ()
) -> Step:
    """An id is known: the claim's if there is one, else the lowest; the others are dropped."""
    chosen = ids[0]
    copies = tuple(job for job in found if job.job != chosen.job)
    new = replace(
        state,
        phase=Phase.SUBMITTED,
        job=chosen,
        accepted=report.now,
        others=tuple(dict.fromkeys((*state.others, *copies))),
    )
    effects: list[Effect] = []
    if report.recorded != chosen:
        effects.append(Record(chosen))
    doomed = (chosen, *copies) if state.cancel or report.cancel else copies
    if doomed:
        effects.append(Drop(doomed))
    return new, tuple(effects)


def _ids(state: State, report: Report, *asked: JobId) -> tuple[JobId, ...]:
    """What may be the id, best first: the claim, what the scheduler told, what was printed."""
    executing = () if report.claim is None else (report.claim,)
    known = {job.job for job in asked}
    paper = [
        job
        for job in (report.recorded, report.printed)
        if job is not None and job not in state.lost and (not known or job.job in known)
    ]
    return tuple(dict.fromkeys((*executing, *paper, *sorted(asked))))


def _missing(state: State) -> Step:
    if not state.phase.open:
        return state, ()
    why = "the run directory was removed, so it is unknown whether the job was ever submitted"
    if state.phase in (Phase.PLANNED, Phase.STAGED):
        return _end(
            state, Phase.REJECTED, "the run directory was removed; nothing was submitted"
        ), ()
    return _end(state, Phase.LOST, why), ()


def _sighting(state: State, fact: Sighting) -> Step:
    """Confirm an id, or find that the controller lost it in a crash."""
    if fact.claim is not None:
        return _claimed(state, fact.claim, queued=fact.queued)
    if not fact.answered or state.phase is Phase.CONFIRMED:
        return state, ()
    if fact.queued or fact.past:
        settled = fact.now - state.accepted >= SETTLED
        return (replace(state, phase=Phase.CONFIRMED) if settled else state), ()
    return _vanished(state, fact)


def _claimed(state: State, claim: JobId, *, queued: bool) -> Step:
    if state.job is None or claim.job == state.job.job:
        return replace(state, phase=Phase.CONFIRMED), ()
    # a copy was quicker: it is the one that executes
    others = tuple(dict.fromkeys((*state.others, state.job)))
    new = replace(state, phase=Phase.CONFIRMED, job=claim, others=others)
    drop: tuple[Effect, ...] = (Drop((state.job,)),) if queued else ()
    return new, (Record(claim), *drop)


def _vanished(state: State, fact: Sighting) -> Step:
    """The scheduler answered, does not know the id, and the job never started."""
    if state.cancel or fact.cancel:
        return _end(state, Phase.CANCELLED), ()
    if fact.min_job_age is None:
        # not told how long ended jobs stay known: it may have been cancelled, or be lost
        return state, ()
    if fact.now - state.accepted >= fact.min_job_age:
        why = f"Slurm accepted it as {state.job} but no longer lists it, and it never started"
        return _end(state, Phase.LOST, why + "; it may have been cancelled on the cluster"), ()
    lost = () if state.job is None else (state.job,)
    forgotten = replace(state, lost=(*state.lost, *lost), job=None, accepted=0.0)
    how = "accepted, then lost by the scheduler"
    return _next(forgotten, fact, how)


def _next(state: State, seen: Report | Sighting, how: str) -> Step:
    """One more attempt, where that is still what the user wants."""
    if state.cancel or seen.cancel:
        return _end(state, Phase.CANCELLED), (Bury(),)
    if state.attempt >= ATTEMPTS:
        return _give_up(state, f"{how} in {state.attempt} attempts")
    if seen.now > state.staged + STALE:
        return _give_up(state, f"{how}, and too old to be sent now")
    return _attempt(state, state.attempt + 1)


def _attempt(state: State, number: int, *, starts: int = 1) -> Step:
    new = replace(state, phase=Phase.SUBMITTING, attempt=number, starts=starts, died=0.0)
    return new, (Start(number, state.lost[-1] if state.lost else None),)


def _look(state: State, age: float | None = None) -> Step:
    """Look into the attempt: at once, or later the longer it lasts."""
    wait = 0.0
    if age is not None:
        wait = next((poll for poll in POLLS if poll >= age / 5), POLLS[-1])
    return replace(state, phase=Phase.RESOLVING), (Resolve(state.attempt, wait),)


def _give_up(state: State, why: str) -> Step:
    state = replace(state, gave_up=True)
    return _end(state, Phase.REJECTED, f"not submitted: {why}"), (Bury(),)


def _end(state: State, phase: Phase, why: str = "") -> State:
    return replace(state, phase=phase, why=why.strip())
