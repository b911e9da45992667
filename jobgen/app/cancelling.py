"""Cancel, which is a state and not a command: the cancel marker first, then the scheduler.

The marker in the run directory stops attempts and accepted copies that have not started, even
while the controller is down. ``scancel`` ends the rest; its exit code proves nothing, so the jobs
are looked at until they have ended, and only jobs that carry the run's token are touched.
"""

from __future__ import annotations

from collections.abc import Sequence

from jobgen.app.array_elements import require_elements, split_ref
from jobgen.app.context import RunContext
from jobgen.app.observing import refresh
from jobgen.app.packed_cancelling import cancel_packed
from jobgen.app.submission_driver import settle
from jobgen.app.world import World
from jobgen.errors import JobgenError, Unreachable
from jobgen.model.chain import read_chain
from jobgen.model.record import JobId, RunRecord
from jobgen.model.sweep_arrays import find_element_jobs, list_jobs
from jobgen.scheduler import Scheduler, get_scheduler
from jobgen.submission import scripts, wire
from jobgen.submission.states import CancelAsked, State
from jobgen.submission.transitions import step
from jobgen.transport import Transport

PATIENCE = 30.0
"""Seconds to watch for the end; Slurm gives a job KillWait (30 s) between SIGTERM and SIGKILL."""
PAUSES = (0.3, 0.7, 1.0, 2.0, 3.0, 5.0)


def cancel(
    world: World, refs: Sequence[str], *, signal: str = "", patience: float = PATIENCE
) -> tuple[RunRecord, ...]:
    """These runs, cancelled, as they are then; one that had ended before stays as it ended.

    With ``signal`` it is sent to the batch shell and nothing is cancelled. Raises Missing, and
    Unreachable where the cluster cannot be asked: the wish is then written down and any later
    ``cancel`` goes on with it.
    """
    parts = [split_ref(ref) for ref in refs]
    runs = [(world.ledger.get(name, exact=True), elements) for name, elements in parts]
    for record, elements in runs:
        require_elements(record, elements)
    return tuple(
        _cancel_elements(world, record, elements, signal)
        if elements
        else _one(world, record, signal, patience)
        for record, elements in runs
    )


def _cancel_elements(
    world: World, record: RunRecord, elements: Sequence[int], signal: str
) -> RunRecord:
    """Some elements of an array: no cancel marker, since the others go on."""
    scheduler = get_scheduler(record.site)
    with world.connect(record.site.login) as transport:
        context = RunContext(transport, world.ledger, world.now, world.sleep, world.say)
        record = refresh([record], context)[0]
        if record.job is None or record.ended:
            return record
        if record.shape.get("packed"):
            return cancel_packed(record, elements, signal, context)
        jobs = find_element_jobs(record, elements)
        if jobs:
            transport.call(scripts.command({"cancel": scheduler.cancel(jobs, signal=signal)}))
        return refresh([record], context)[0]


def _one(world: World, record: RunRecord, signal: str, patience: float) -> RunRecord:
    if record.settled:
        return record
    if not signal:
        record = _wanted(world, record)
    with world.connect(record.site.login) as transport:
        context = RunContext(
            transport, world.ledger, world.now, world.sleep, world.say, patience=patience
        )
        if signal:
            return _signal(record, signal, context)
        return _cancel(record, context)


def _wanted(world: World, record: RunRecord) -> RunRecord:
    """Written down first: a process that is submitting this very run reads it."""
    state, _ = step(State.of(record), CancelAsked())
    return world.ledger.update(
        record.token,
        submission={**record.submission, "state": state.data()},
        event=("cancel", "cancel requested"),
    )


def _cancel(record: RunRecord, context: RunContext) -> RunRecord:
    scheduler = get_scheduler(record.site)
    if record.directory:
        _bury(record, context.transport, scheduler)
    if State.of(record).phase.open:
        # whether there is anything to cancel is not known yet
        record = settle(record, context)
    until, pauses = context.now() + context.patience, list(PAUSES)
    record = refresh([record], context)[0]
    if record.ended and not record.settled:
        _scancel(record, context.transport, scheduler)
        context.say(
            f"{record.alias} is {record.state}: the scheduler does not list it, so it could not be "
            f"cancelled; if it shows up again: jobgen cancel {record.alias}"
        )
    while not record.ended and record.job is not None:
        _scancel(record, context.transport, scheduler)
        if context.now() >= until:
            context.say(f"{record.alias} is still {record.state}; cancelling goes on over there")
            break
        context.sleep(pauses.pop(0) if len(pauses) > 1 else pauses[0])
        record = refresh([record], context)[0]
    return record


def _bury(record: RunRecord, transport: Transport, scheduler: Scheduler) -> None:
    result = transport.call(scripts.bury(record.directory, record.token))
    try:
        told = wire.index(wire.split_frames(result.out))
    except wire.GarbledError:
        told = {}
    if "failed" in told:
        raise JobgenError(
            f"{record.alias}: cannot write the cancel marker to {record.directory}: "
            f"{told['failed']}",
            hint=f"cancel it there: {scheduler.cancel([record.job])}" if record.job else "",
        )


def _scancel(record: RunRecord, transport: Transport, scheduler: Scheduler) -> None:
    """scancel every job that carries this run's token, and no other."""
    result = transport.call(scripts.command({"find": scheduler.find()}))
    try:
        found = scheduler.parse_own_jobs(
            wire.read_answer(wire.index(wire.split_frames(result.out)), "find")
        )
    except wire.GarbledError:
        found = None
    if found is None:
        site = record.site.cluster
        raise Unreachable(
            f"{site}: the scheduler does not answer; {record.alias} will not start if it has not, "
            "but it is not cancelled",
            hint=f"jobgen cancel {record.alias} again",
        )
    jobs = [each.job for each in found if each.belongs_to(record.token)]
    if jobs:
        transport.call(scripts.command({"cancel": scheduler.cancel(jobs)}))


def _list_started(record: RunRecord) -> Sequence[JobId]:
    """The jobs that get a signal: of a chain the one that runs, without those that wait."""
    if read_chain(record.shape) and record.job is not None:
        return (record.job,)
    return list_jobs(record)


def _signal(record: RunRecord, signal: str, context: RunContext) -> RunRecord:
    scheduler = get_scheduler(record.site)
    record = refresh([record], context)[0]
    if record.job is None or record.ended:
        return record
    if record.site.inside:
        asks = "sh -c 'touch \"$JOBGEN_STOP_FILE\"'"
        raise JobgenError(
            f"{record.alias} is a step of job {record.job}: a signal would reach all its processes",
            hint=f"to let it save and stop: jobgen sh {record.alias} -- {asks}",
        )
    bare = [job._replace(task=None, component=None) for job in _list_started(record)]
    question = {"signal": scheduler.cancel(bare, signal=signal)}
    result = context.transport.call(scripts.command(question))
    told = wire.read_answer(wire.index(wire.split_frames(result.out)), "signal")
    if told.code != 0:
        raise JobgenError(f"{record.alias}: {told.error_text.strip() or 'the signal was refused'}")
    context.ledger.note(record.token, "signal", f"{signal} sent to the batch shell")
    return record
