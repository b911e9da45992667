"""Cancel elements of a packed sweep: a marker, so that no worker takes it, then its step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobgen.app.array_elements import list_element_states
from jobgen.app.observing import refresh
from jobgen.errors import JobgenError
from jobgen.scheduler.slurm_steps import list_steps, parse_steps, signal_steps
from jobgen.submission import scripts, wire

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobgen.app.context import RunContext
    from jobgen.model.record import RunRecord

GRACE = 10.0
"""Seconds between SIGTERM and SIGKILL: Slurm itself ends a step at once."""
PATIENCE = 45.0
"""Seconds to watch for the ends."""
PAUSE = 1.0


def cancel_packed(
    record: RunRecord, elements: Sequence[int], signal: str, context: RunContext
) -> RunRecord:
    """The run with some elements cancelled; with ``signal`` that is sent, and nothing cancelled."""
    if signal:
        _signal(record, _find_steps(record, elements, context), signal, context)
        return record
    _bury(record, elements, context)
    asked, stopping = context.now(), set[str]()
    while True:
        record = refresh([record], context)[0]
        states = list_element_states(record, elements)
        left = [element for element, state in states.items() if not state.final]
        if not left or record.ended:
            return record
        waited = context.now() - asked
        if waited >= PATIENCE:
            names = ", ".join(map(str, left))
            context.say(f"{record.alias}: still running: {names}; cancelling goes on over there")
            return record
        steps = _find_steps(record, left, context)
        if waited >= GRACE:
            _signal(record, steps, "", context)
        else:
            _signal(record, [step for step in steps if step not in stopping], "TERM", context)
            stopping |= {*steps}
        context.sleep(PAUSE)


def _bury(record: RunRecord, elements: Sequence[int], context: RunContext) -> None:
    script = scripts.bury_elements(record.directory, record.token, elements)
    try:
        told = wire.index(wire.split_frames(context.transport.call(script).out))
    except wire.GarbledError:
        told = {}
    if "buried" not in told:
        why = told.get("failed", "no answer")
        message = f"{record.alias}: cannot write the cancel markers to {record.directory}: {why}"
        raise JobgenError(message)


def _find_steps(record: RunRecord, elements: Sequence[int], context: RunContext) -> Sequence[str]:
    """The steps in which these elements run."""
    if record.job is None:
        return ()
    result = context.transport.call(scripts.command({"steps": list_steps(record.job)}))
    try:
        told = wire.index(wire.split_frames(result.out))
    except wire.GarbledError:
        return ()
    running = parse_steps(record.job, wire.read_answer(told, "steps"))
    return [step for element in elements for step in running.get(element, ())]


def _signal(record: RunRecord, steps: Sequence[str], signal: str, context: RunContext) -> None:
    if record.job is not None and steps:
        question = {"cancel": signal_steps(record.job, steps, signal)}
        context.transport.call(scripts.command(question))
