"""Following a job: its lines as they come, its end, and how a person leaves it and comes back."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from functools import partial
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self

from jobgen.app.program_parts import count_most_ranks, count_part_ranks
from jobgen.cli.call import Call
from jobgen.cli.log_options import (
    MANY,
    LogsOptions,
    check_options,
    check_ranks,
    read_elements,
    select_lines,
    select_steps,
)
from jobgen.cli.log_stream import PrefixForm, Stream
from jobgen.cli.output import defuse, is_tty
from jobgen.errors import Exit
from jobgen.model.record import JobState, RunRecord

if TYPE_CHECKING:
    from jobgen.follow import View

NOT_YET = "Ctrl-C detaches; the job keeps running."


def show_state(call: Call, record: RunRecord) -> None:
    """Print the state of a run that changed while it is waited for."""
    from jobgen.app import jobs

    call.output.say(f"{record.alias}: {defuse(jobs.describe_state(record))}")


def _announce(call: Call, view: View, record: RunRecord) -> None:
    """Say what is left out of the logs of many ranks, and how to see it."""
    if view.brief:
        count = count_part_ranks(record, view.steps)
        call.output.say(f"Showing rank 0, and stderr of all {count:,} ranks. More: --rank all")


def show_logs(call: Call, ref: str, options: LogsOptions) -> int:
    """Show the logs as they are, or with ``follow`` as they grow."""
    from jobgen.app import jobs
    from jobgen.app import logs as app

    check_options(options)
    record, options = read_elements(call, ref, options)
    options = select_steps(options, record)
    check_ranks(options, record)
    ref = record.alias  # a name or @last may mean a newer run later
    view, prefixed = select_lines(call, options, record), not (options.no_prefix or options.raw)
    _announce(call, view, record)
    with Detachable(call, ref, code=Exit.DONE) as detachable:
        timed = options.timestamps
        stream = _stream(call, record, prefixed=prefixed, timed=timed, parts=options.steps)
        if options.follow:
            if not record.ended:
                call.output.say(NOT_YET)
            stream.show(app.follow(call.world, ref, view))
        else:
            stream.show(app.show(call.world, ref, view))
    if detachable.detached or not options.exit_status:
        return Exit.DONE
    return _result(jobs.wait(call.world, [ref]))


def _stream(
    call: Call,
    record: RunRecord,
    *,
    prefixed: bool = True,
    timed: bool = False,
    parts: Sequence[str] = (),
) -> Stream:
    """A stream whose prefixes are as wide as this run's nodes and ranks need.

    ``parts`` are the steps or groups that are shown, by default all.
    """
    parts = parts or record.steps
    form = PrefixForm(
        nodes=record.nodes,
        ranks=count_most_ranks(record, parts),
        array=bool(record.shape.get("elements")),
        parts=tuple(parts) if len(parts) > 1 else (),
    )
    return Stream(call, prefixed=prefixed, timed=timed, form=form)


def follow_submitted(call: Call, record: RunRecord, *, follow: bool, wait: bool) -> int:
    """Stay with a job that was just submitted, if that was asked for."""
    if follow:
        return follow_to_end(call, record)
    return wait_for_end(call, [record.alias], stream=True) if wait else Exit.DONE


def follow_to_end(call: Call, record: RunRecord) -> int:
    """Follow a job that was just submitted; gives its result as the exit code."""
    from jobgen.app import jobs
    from jobgen.app import logs as app
    from jobgen.app.log_tail import Unread
    from jobgen.follow import View

    call.output.say(NOT_YET)
    with Detachable(call, record.alias, code=Exit.INTERRUPTED) as detachable:
        fold = not (call.flags.verbose or call.flags.json)
        brief = count_part_ranks(record) > MANY
        view = View(colour=call.flags.color == "always", fold=fold, brief=brief)
        _announce(call, view, record)
        try:
            _stream(call, record).show(app.follow(call.world, record.alias, view))
        except Unread as error:
            # the exit code is the job's, not that of its logs
            call.output.say(defuse(error), level=2)
        found = jobs.wait(call.world, [record.alias])
        _told(call, found, stream=True)
        return _result(found)
    return detachable.code


def wait_for_end(
    call: Call,
    refs: Sequence[str],
    *,
    timeout: float | None = None,
    any_one: bool = False,
    stream: bool = False,
) -> int:
    """Wait for the end of these jobs; gives 0 where all COMPLETED, else 1."""
    from jobgen.app import jobs

    seen = partial(show_state, call)
    refs = [_name_run(call, ref) for ref in refs]
    with Detachable(call, *refs, code=Exit.INTERRUPTED) as detachable:
        found = jobs.wait(call.world, refs, timeout=timeout, any_one=any_one, seen=seen)
        _told(call, found, stream=stream)
        return _result(found)
    return detachable.code


def _name_run(call: Call, ref: str) -> str:
    """The run by its own name, with its elements: a job's name may mean a newer run later."""
    from jobgen.app.array_elements import find_run, narrow_run

    return narrow_run(*find_run(call.world, ref)).alias


def _told(call: Call, records: Sequence[RunRecord], *, stream: bool) -> None:
    """How they ended: an event where events came before, nothing with ``-q``."""
    from jobgen.cli.screens.job_data import dump_job
    from jobgen.cli.screens.jobs import draw_ended

    if call.flags.json and stream:
        call.write_line({"event": "ended", "jobs": [dump_job(r) for r in records]})
    elif call.flags.json or not call.flags.quiet:
        call.answer(
            lambda: [dump_job(r) for r in records],
            lambda ink: "".join(draw_ended(r, ink) for r in records if r.ended),
        )


def _result(records: Sequence[RunRecord]) -> Exit:
    ended = [r for r in records if r.ended]
    return Exit.DONE if all(r.state is JobState.COMPLETED for r in ended) else Exit.FAILED


class Detachable:
    """A block that Ctrl-C leaves without touching the job; a second Ctrl-C leaves at once."""

    def __init__(self, call: Call, *refs: str, code: Exit) -> None:
        self.code = code
        self.detached = False
        self._call = call
        self._refs = refs
        self._before: Any = None

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, _first)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self.detached = kind is not None and issubclass(kind, KeyboardInterrupt)
        if self.detached:
            self._say()
        signal.signal(signal.SIGINT, self._before)
        return self.detached

    def _say(self) -> None:
        from jobgen.cli.screens import jobs as screens

        if self._call.flags.json:
            self._call.write_line({"event": "detached", "jobs": list(self._refs)})
        if is_tty(sys.stderr):
            self._call.output.say("")  # the terminal has just shown ^C
        for ref in self._refs:
            record = self._call.world.ledger.get(ref)
            self._call.output.say(screens.draw_detached(record, self._call.output.talk))


def _first(_: int, __: FrameType | None) -> None:
    """The first Ctrl-C: unwind. From now on, the next one leaves at once."""
    signal.signal(signal.SIGINT, _second)
    raise KeyboardInterrupt


def _second(_: int, __: FrameType | None) -> None:
    os._exit(Exit.INTERRUPTED)
