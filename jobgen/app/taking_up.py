"""A run that another process left open, taken up by the one that sees it."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace

from jobgen.app.errand import Errand
from jobgen.app.orders import Orders
from jobgen.app.submitting import carry_out
from jobgen.errors import JobgenError
from jobgen.model.record import RunRecord
from jobgen.submission.states import Bury, Drop, Effect, Record, State


def settle(record: RunRecord, errand: Errand) -> RunRecord:
    """A run that another process left between planning and its job id, taken up once.

    Never raises for what it finds: the record says it.
    """
    try:
        seen = carry_out(record, None, replace(errand, patience=0.0, redial=None))
    except JobgenError:
        return errand.ledger.get(record.token)
    return _name_sender(seen, errand) if State.of(seen).phase.open else seen


def _name_sender(record: RunRecord, errand: Errand) -> RunRecord:
    """The run with the process of another host that has it: its end cannot be seen from here."""
    owner, until = errand.ledger.holder(record.token)
    host, _, pid = owner.rpartition(":")
    if host in ("", os.uname().nodename) or until <= errand.now():
        return record
    clock = time.strftime("%H:%M", time.localtime(until))
    why = f"process {pid} on {host} is submitting it; if it was killed, ask again after {clock}"
    return record if why == record.reason else errand.ledger.update(record.token, reason=why)


def perform(record: RunRecord, state: State, effects: Sequence[Effect], errand: Errand) -> None:
    """Carry out effects that bring nothing back, of a state that is written down."""
    orders = Orders(record)
    for effect in effects:
        if isinstance(effect, Record | Drop | Bury):
            errand.transport.call(orders.script(state, effect, errand.nonce()))
