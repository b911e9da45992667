"""A planned run is carried to its job id, exactly once, whatever breaks on the way.

The machine of ``jobgen.submission`` decides; here its effects leave, each only after the state
that wants it stands in the ledger. A process that dies is followed by any other: ``taking_up`` goes
on from what is written down and from what the run directory knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from jobgen.app import answers
from jobgen.app.errand import LEASE, REDIALS, UPLOAD_DEADLINE, Errand, Sender
from jobgen.app.orders import Orders
from jobgen.app.progress import STAGES
from jobgen.app.progress import Stage as Moment
from jobgen.errors import JobgenError, Unreachable
from jobgen.model.record import JobState, RunRecord
from jobgen.submission import scripts
from jobgen.submission.machine import step
from jobgen.submission.states import (
    Begin,
    CancelAsked,
    Effect,
    Fact,
    Phase,
    Resolve,
    Stage,
    Start,
    State,
)
from jobgen.transport import Payload

if TYPE_CHECKING:
    from jobgen.model.record_data import Submission


def carry_out(
    record: RunRecord, send: Sender | None, errand: Errand, *, options: Sequence[str] = ()
) -> RunRecord:
    """The run with its job id. ``options`` are further words for sbatch.

    Raises Refused with the scheduler's own words, Unreachable where it is not known yet whether
    the job was taken (any later command finds out), and JobgenError where it could not be sent.
    """
    if not errand.ledger.lease(record.token, LEASE):
        return errand.ledger.get(record.token)
    try:
        return _Carrier(record, send, errand, options).run()
    finally:
        # a lease that is not given back ends with its process
        with suppress(JobgenError):
            errand.ledger.release(record.token)


class _Carrier:
    """Drives the machine for one run in one process."""

    def __init__(
        self,
        record: RunRecord,
        send: Sender | None,
        errand: Errand,
        options: Sequence[str],
    ) -> None:
        self.record = record
        self.send = send
        self.errand = errand
        self.orders = Orders(record, options)
        self._redials = 0
        self._asked = False
        self._unwritten = False

    def run(self) -> RunRecord:
        """Step until an id or an end is known, or patience runs out."""
        until = self.errand.now() + self.errand.patience
        state = State.of(self.record)
        fact: Fact | None = Begin()
        while fact is not None:
            state, effects = step(state, fact)
            state = self._write_down_if_possible(state, effects)
            fact = self._carry(state, effects, until)
            if fact is None and state.phase.open and not self._waiting(effects):
                fact = Begin()
        return self._verdict(state)

    def _waiting(self, effects: Sequence[Effect]) -> bool:
        return any(isinstance(effect, Resolve | Stage | Start) for effect in effects)

    def _carry(self, state: State, effects: Sequence[Effect], until: float) -> Fact | None:
        """Do it; the fact that the last effect brought back, None where patience ran out."""
        fact: Fact | None = None
        for effect in effects:
            if isinstance(effect, Resolve) and effect.wait:
                if self.errand.now() + effect.wait > until:
                    return None
                self._explain_wait(state)
                self.errand.sleep(effect.wait)
            if isinstance(effect, Stage) and self.send is None:
                self._clear_up()
            fact = self._do(state, effect)
        return fact

    def _do(self, state: State, effect: Effect) -> Fact | None:
        try:
            return self._once(state, effect)
        except Unreachable as error:
            return self._lost(effect, error)
        except JobgenError as error:
            # as when a file changes while it is being read
            if isinstance(effect, Stage) and not self.record.ended:
                self._mark_unsent(str(error))
            raise

    def _once(self, state: State, effect: Effect) -> Fact | None:
        errand = self.errand
        if isinstance(effect, Stage):
            return self._stage(state)
        if isinstance(effect, Start):
            self._asked = True
            self._moment(3, "sbatch", "waiting for its answer")
        text = self.orders.script(state, effect, errand.nonce())
        result = errand.transport.call(text, deadline=scripts.DEADLINE)
        if isinstance(effect, Resolve):
            return answers.resolved(
                result, self.orders.scheduler, effect.attempt, self.record.token
            )
        if not isinstance(effect, Start):
            return None
        found = answers.started(result, self.orders.scheduler, effect.attempt)
        if isinstance(found, answers.Failure):
            go_on = f"then jobgen show {self.record.alias} goes on with it"
            raise JobgenError(
                f"{self.record.alias} is not submitted yet: {found.text}",
                hint=f"{found.hint}; {go_on}" if found.hint else go_on,
            )
        return found

    def _stage(self, state: State) -> Fact:
        assert self.send is not None  # noqa: S101 - _carry has looked
        payload = self.send()
        self._moment(2, "upload", "", total=payload.size)
        text = self.orders.script(state, Stage(), self.errand.nonce())
        watched = Payload(payload.size, self._watched(payload))
        result = self.errand.transport.call(text, watched, deadline=UPLOAD_DEADLINE)
        found = answers.staged(result)
        if isinstance(found, answers.Failure):
            self._abandon(found.text, hint=found.hint)
        if found.shared:
            self.errand.say(
                f"warning: others may change {found.shared}, replace run directories below it, "
                "and so run programs as you"
            )
        self._moment(2, "upload", "", done=payload.size, total=payload.size, ended=True)
        return found

    def _watched(self, payload: Payload) -> Iterator[bytes]:
        done, held = 0, self.errand.now()
        for chunk in payload.chunks:
            yield chunk
            done += len(chunk)
            if self.errand.now() - held > LEASE / 10:
                held = self.errand.now()
                self.errand.ledger.lease(self.record.token, LEASE)
            self._moment(2, "upload", "", done=done, total=payload.size)

    def _moment(
        self,
        number: int,
        name: str,
        text: str,
        *,
        done: int = 0,
        total: int = 0,
        ended: bool = False,
    ) -> None:
        self.errand.progress(Moment(number, STAGES, name, text, done, total, ended))

    # what is written down

    def _write_down_if_possible(self, state: State, effects: Sequence[Effect]) -> State:
        """The state, written down; once sbatch was asked, known in this process if need be.

        Raises Unreachable where something would begin that nobody could take up: the run
        directory knows what became of the attempt, and a later command reads it there.
        """
        try:
            return self._write_down(state)
        except JobgenError as error:
            if not self._asked:
                raise
            alias, cluster = self.record.alias, self.record.site.cluster
            if any(isinstance(effect, Start | Stage) for effect in effects):
                raise Unreachable(
                    *error.problems,
                    f"whether {cluster} took {alias} is not known yet",
                    hint=f"make room, then: jobgen show {alias}; it is never submitted twice",
                ) from error
            self._say_unwritten(error)
            self.record = self.record._replace(**answers.shown(state, self.record))
            return state

    def _say_unwritten(self, error: JobgenError) -> None:
        if not self._unwritten:
            self._unwritten = True
            self.errand.say(
                f"warning: {error}; sbatch was asked all the same, and the run directory keeps "
                f"its answer: make room, then jobgen show {self.record.alias}"
            )

    def _write_down(self, state: State) -> State:
        """The state, before anything of it leaves. Another process may have asked to cancel."""
        before = self.record
        if before.submission:
            state = _with_cancel(state, self.errand.ledger.get(before.token))
        data: Submission = {"state": state.data(), "options": list(self.orders.options)}
        if before.submission == data:
            return state
        changes = answers.shown(state, before)
        changes |= {"submission": data, "updated": self.errand.now()}
        event = answers.told(State.of(before), state)
        self.record = self.errand.ledger.update(before.token, event=event, **changes)
        return state

    # what is said

    def _explain_wait(self, state: State) -> None:
        self._moment(
            3, "sbatch", f"no clear answer to attempt {state.attempt}; looking whether it was taken"
        )

    def _lost(self, effect: Effect, error: Unreachable) -> Fact:
        """The connection broke: nothing is known of what the effect did."""
        redial = self.errand.redial
        while redial is not None and self._redials < REDIALS:
            self._redials += 1
            self.errand.sleep(2.0 ** (self._redials - 1))
            try:
                self.errand.transport = redial()
            except Unreachable as again:
                error = again
            else:
                return Begin()
        if isinstance(effect, Stage):
            self._not_sent(error)
        raise Unreachable(
            *error.problems,
            f"whether {self.record.site.cluster} took {self.record.alias} is not known yet",
            hint=f"jobgen show {self.record.alias} finds out; it is never submitted twice",
        ) from error

    def _not_sent(self, error: Unreachable) -> NoReturn:
        """Nothing was submitted. What may lie over there, the next command that gets there takes
        away: until then the run has not ended."""
        why = "the connection was lost while it was being sent"
        self._mark_unsent(why)
        raise Unreachable(
            *error.problems,
            f"{self.record.alias} was not submitted: {why}",
            hint="run the same command again",
        ) from error

    def _mark_unsent(self, why: str) -> None:
        self.record = self.errand.ledger.update(
            self.record.token,
            state=JobState.REJECTED,
            reason=f"not submitted: {why}",
            event=("rejected", f"not submitted: {why}"),
        )

    def _clear_up(self) -> NoReturn:
        """A run whose sender is gone: it was never submitted, and nothing of it stays."""
        site = self.record.site
        text = scripts.clear(site.root, self.record.folder, self.record.token)
        self.errand.transport.call(text)
        known = self.record.reason if self.record.state is JobState.REJECTED else ""
        self._abandon(known or "the command that was sending it was ended")

    def _abandon(self, why: str, hint: str = "") -> NoReturn:
        """Nothing was submitted and nothing will be."""
        state = State.of(self.record)
        self.record = self.errand.ledger.update(
            self.record.token,
            state=JobState.REJECTED,
            ended=True,
            reason=why,
            submission={"state": replace(state, phase=Phase.REJECTED, why=why).data()},
            event=("rejected", f"not submitted: {why.removeprefix('not submitted: ')}"),
        )
        raise JobgenError(
            f"{self.record.alias} was not submitted: {why}",
            hint=hint or "nothing was left behind; run the same command again",
        )

    def _verdict(self, state: State) -> RunRecord:
        record = self.record
        if state.phase in (Phase.SUBMITTED, Phase.CONFIRMED, Phase.CANCELLED):
            text = f"accepted as {record.job}" if record.job else "cancelled"
            self._moment(3, "sbatch", text, ended=True)
            return record
        raise answers.why_not(state, record)


def _with_cancel(state: State, stored: RunRecord) -> State:
    wanted = State.of(stored)
    return step(state, CancelAsked())[0] if wanted.cancel and not state.cancel else state
