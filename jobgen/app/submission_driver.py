"""Carry a planned run to its job id, exactly once, whatever breaks on the way.

The machine of ``jobgen.submission`` decides; here its effects leave, each only after the state
that wants it stands in the ledger. A process that dies is followed by any other: ``settle`` goes
on from what is written down and from what the run directory knows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn, Unpack

from jobgen.app.context import LEASE, RunContext, SubmitStage
from jobgen.errors import JobgenError, Unreachable
from jobgen.model.record import JobState, RunRecord
from jobgen.submission import record_changes, replies, scripts
from jobgen.submission.exchange import RunScripts
from jobgen.submission.states import (
    Begin,
    Bury,
    CancelAsked,
    Drop,
    Effect,
    Fact,
    Phase,
    Record,
    Resolve,
    Stage,
    Start,
    State,
)
from jobgen.submission.transitions import step
from jobgen.transport import Payload

if TYPE_CHECKING:
    from jobgen.model.record_data import RecordChanges, Submission

UPLOAD_DEADLINE = 3600.0
"""Seconds an upload may take; a link that stands still is found out by the transport."""

Sender = Callable[[], Payload]
"""Makes the tar of the run directory; called once for each try."""


def carry_out(
    record: RunRecord, send: Sender | None, context: RunContext, *, options: Sequence[str] = ()
) -> RunRecord:
    """The run with its job id. ``options`` are further words for sbatch.

    Raises Refused with the scheduler's own words, Unreachable where it is not known yet whether
    the job was taken (any later command finds out), and JobgenError where it could not be sent.
    """
    if not context.ledger.lease(record.token, LEASE):
        return context.ledger.get(record.token)
    try:
        return _Driver(record, send, context, options).run()
    finally:
        # a lease that is not given back ends with its process
        with suppress(JobgenError):
            context.ledger.release(record.token)


def settle(record: RunRecord, context: RunContext) -> RunRecord:
    """A run that another process left between planning and its job id, taken up once.

    Never raises for what it finds: the record says it.
    """
    try:
        seen = carry_out(record, None, replace(context, patience=0.0, redial=None))
    except JobgenError:
        return context.ledger.get(record.token)
    return _name_sender(seen, context) if State.of(seen).phase.open else seen


def _name_sender(record: RunRecord, context: RunContext) -> RunRecord:
    """The run with the process of another host that has it: its end cannot be seen from here."""
    owner, until = context.ledger.get_holder(record.token)
    host, _, pid = owner.rpartition(":")
    if host in ("", os.uname().nodename) or until <= context.now():
        return record
    clock = time.strftime("%H:%M", time.localtime(until))
    why = f"process {pid} on {host} is submitting it; if it was killed, ask again after {clock}"
    return record if why == record.reason else context.ledger.update(record.token, reason=why)


def perform(
    record: RunRecord, state: State, effects: Sequence[Effect], context: RunContext
) -> None:
    """Carry out effects that bring nothing back, of a state that is written down."""
    run = RunScripts(record)
    for effect in effects:
        if isinstance(effect, Record | Drop | Bury):
            context.transport.call(run.write_script(state, effect, context.nonce()))


class _Driver:
    """Drives the machine for one run in one process."""

    def __init__(
        self, record: RunRecord, send: Sender | None, context: RunContext, options: Sequence[str]
    ) -> None:
        self.record = record
        self.send = send
        self.context = context
        self.scripts = RunScripts(record, options)
        self._tool = "srun" if record.site.inside else "sbatch"
        self._asked = False
        self._unwritten = False

    def run(self) -> RunRecord:
        """Step until an id or an end is known, or patience runs out."""
        until = self.context.now() + self.context.patience
        state = State.of(self.record)
        fact: Fact | None = Begin()
        while fact is not None:
            state, effects = step(state, fact)
            state = self._write_down_if_possible(state, effects)
            fact = self._carry_effects(state, effects, until)
            if fact is None and state.phase.open and not _brings_fact(effects):
                fact = Begin()
        if state.phase not in (Phase.SUBMITTED, Phase.CONFIRMED, Phase.CANCELLED):
            raise record_changes.explain_end(state, self.record)
        how = "started inside" if self.record.site.inside else "accepted as"
        text = f"{how} job {self.record.job}" if self.record.job else "cancelled"
        self.context.progress(SubmitStage(3, self._tool, text, ended=True))
        return self.record

    def _carry_effects(self, state: State, effects: Sequence[Effect], until: float) -> Fact | None:
        """Do it; the fact that the last effect brought back, None where patience ran out."""
        fact: Fact | None = None
        for effect in effects:
            if isinstance(effect, Resolve) and effect.wait:
                if self.context.now() + effect.wait > until:
                    return None
                unclear = f"no clear answer to attempt {state.attempt}"
                self.context.progress(
                    SubmitStage(3, self._tool, f"{unclear}; looking whether it was taken")
                )
                self.context.sleep(effect.wait)
            if isinstance(effect, Stage) and self.send is None:
                self._clear_up()
            fact = self._do(state, effect)
        return fact

    def _do(self, state: State, effect: Effect) -> Fact | None:
        try:
            if isinstance(effect, Stage):
                return self._upload(state, effect)
            return self._call(state, effect)
        except Unreachable as error:
            return self._reconnect(effect, error)
        except JobgenError as error:
            # as when a file changes while it is being read
            if isinstance(effect, Stage) and not self.record.ended:
                self._mark_unsent(str(error))
            raise

    def _call(self, state: State, effect: Effect) -> Fact | None:
        context, scheduler = self.context, self.scripts.scheduler
        if isinstance(effect, Start):
            self._asked = True
            context.progress(SubmitStage(3, self._tool, "waiting for its answer"))
        text = self.scripts.write_script(state, effect, context.nonce())
        result = context.transport.call(text, deadline=scripts.DEADLINE)
        if isinstance(effect, Resolve):
            return replies.read_resolve(result, scheduler, effect.attempt, self.record.token)
        if not isinstance(effect, Start):
            return None
        reply = replies.read_start(result, scheduler, effect.attempt)
        if isinstance(reply, replies.FailedReply):
            go_on = f"then jobgen show {self.record.alias} goes on with it"
            raise JobgenError(
                f"{self.record.alias} is not submitted yet: {reply.text}",
                hint=f"{reply.hint}; {go_on}" if reply.hint else go_on,
            )
        return reply

    def _upload(self, state: State, effect: Stage) -> Fact:
        assert self.send is not None  # noqa: S101 - _carry_effects has looked
        context, payload = self.context, self.send()
        context.progress(SubmitStage(2, "upload", total=payload.size))
        text = self.scripts.write_script(state, effect, context.nonce())
        watched = context.watch_upload(payload, self.record.token)
        reply = replies.read_stage(context.transport.call(text, watched, deadline=UPLOAD_DEADLINE))
        if isinstance(reply, replies.FailedReply):
            self._abandon(reply.text, hint=reply.hint)
        if reply.shared:
            context.say(
                f"warning: others may change {reply.shared}, replace run directories below it, "
                "and so run programs as you"
            )
        context.progress(
            SubmitStage(2, "upload", done=payload.size, total=payload.size, ended=True)
        )
        return reply

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
            make_room = f"make room, then: jobgen show {self.record.alias}"
            if any(isinstance(effect, Start | Stage) for effect in effects):
                raise record_changes.explain_unclear(self.record, error, make_room) from error
            self._say_unwritten(error)
            self.record = self.record._replace(**record_changes.list_changes(state, self.record))
            return state

    def _say_unwritten(self, error: JobgenError) -> None:
        if not self._unwritten:
            self._unwritten = True
            self.context.say(
                f"warning: {error}; sbatch was asked all the same, and the run directory keeps "
                f"its answer: make room, then jobgen show {self.record.alias}"
            )

    def _write_down(self, state: State) -> State:
        """The state as recorded before anything is sent. Another process may want to cancel."""
        before, ledger = self.record, self.context.ledger
        if before.submission and State.of(ledger.get(before.token)).cancel and not state.cancel:
            state, _ = step(state, CancelAsked())
        data: Submission = {"state": state.data(), "options": list(self.scripts.options)}
        if before.submission == data:
            return state
        changes = record_changes.list_changes(state, before)
        changes |= {"submission": data, "updated": self.context.now()}
        inside = bool(before.site.inside)
        event = record_changes.describe_step(State.of(before), state, inside=inside)
        self.record = ledger.update(before.token, event=event, **changes)
        return state

    # what goes wrong

    def _reconnect(self, effect: Effect, error: Unreachable) -> Fact:
        """The connection broke: nothing is known of what the effect did."""
        lost = self.context.reconnect(error)
        if lost is None:
            return Begin()
        alias = self.record.alias
        if isinstance(effect, Stage):
            # until a later command has cleared up over there, the run has not ended
            why = "the connection was lost while it was being sent"
            self._mark_unsent(why)
            text = f"{alias} was not submitted: {why}"
            raise Unreachable(*lost.problems, text, hint="run the same command again") from lost
        hint = f"jobgen show {alias} finds out"
        raise record_changes.explain_unclear(self.record, lost, hint) from lost

    def _mark_unsent(self, why: str, **changes: Unpack[RecordChanges]) -> None:
        why = f"not submitted: {why}"
        fields: RecordChanges = {"state": JobState.REJECTED, "reason": why, **changes}
        self.record = self.context.ledger.update(
            self.record.token, event=("rejected", why), **fields
        )

    def _clear_up(self) -> NoReturn:
        """Remove all that is there of a run whose sender is gone: it was never submitted."""
        site = self.record.site
        text = scripts.clear(site.root, self.record.folder, self.record.token)
        self.context.transport.call(text)
        known = self.record.reason if self.record.state is JobState.REJECTED else ""
        self._abandon(known or "the command that was sending it was ended")

    def _abandon(self, why: str, hint: str = "") -> NoReturn:
        """Nothing was submitted and nothing will be."""
        state = replace(State.of(self.record), phase=Phase.REJECTED, why=why)
        submission: Submission = {"state": state.data()}
        unsent = why.removeprefix("not submitted: ")
        self._mark_unsent(unsent, ended=True, reason=why, submission=submission)
        raise JobgenError(
            f"{self.record.alias} was not submitted: {why}",
            hint=hint or "nothing was left behind; run the same command again",
        )


def _brings_fact(effects: Sequence[Effect]) -> bool:
    return any(isinstance(effect, Resolve | Stage | Start) for effect in effects)
