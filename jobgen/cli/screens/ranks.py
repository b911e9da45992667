"""Ranks in words: which one failed first, and which one the others may be waiting for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from jobgen.app.program_parts import find_failed_part, has_stopped
from jobgen.cli.layout import format_span
from jobgen.cli.output import defuse
from jobgen.model.record import RunRecord

if TYPE_CHECKING:
    from jobgen.model.events import RankFailure, Silence, StepRecord

LOG_LINES = 20
"""Lines of a log that fit a screen with a prompt."""
STOPPED_EARLY = 98
"""The exit code of what the pre-timeout signal stopped before its end."""
TRACEBACK = 50
"""Lines in which the traceback of an error has room, through torch to the program's own line."""
MANY_STEPS = 8
"""Runs of steps that a screen lists one by one."""
Row = TypeVar("Row", "RankFailure", "Silence")


def describe_ranks(record: RunRecord) -> list[str]:
    """Sentences about the ranks of the newest start; none if nothing was recorded."""
    failures, silences = _newest(record, record.failures), _newest(record, record.silences)
    first = {failure.task: failure for failure in reversed(failures)}
    texts = [
        *((row.task, _describe_failure(row, first=row is first[row.task])) for row in failures),
        *((row.task, _describe_silence(row)) for row in silences),
    ]
    array = bool(record.shape.get("elements"))
    return [f"element {defuse(task)}: {text}" if array else text for task, text in texts]


def describe_steps(record: RunRecord) -> list[str]:
    """A line for each step or group that has begun, by its newest start, and one for the others."""
    runs = {(run.task, run.name): run for run in record.step_runs}
    shown, folded = _fold_succeeded([*runs.values()])
    array = bool(record.shape.get("elements"))
    lines = [f"{folded} {record.part_kind}s: succeeded"] if folded else []
    lines += [
        f"{f'element {defuse(run.task)}: ' if array else ''}{record.part_kind} {defuse(run.name)}: "
        + _describe_step(run, record)
        for run in shown
    ]
    waiting = [name for name in record.steps if name not in {run.name for run in runs.values()}]
    if waiting and (lines or record.ended):
        more = f" and {len(waiting) - MANY_STEPS} more" if len(waiting) > MANY_STEPS else ""
        lines.append(f"not started: {', '.join(map(defuse, waiting[:MANY_STEPS]))}{more}")
    return lines


def _fold_succeeded(runs: list[StepRecord]) -> tuple[list[StepRecord], int]:
    """The runs to list, and how many before them have succeeded and need no line each."""
    old = runs[:-MANY_STEPS]
    kept = [run for run in old if run.code != 0 or run.stopped]
    return [*kept, *runs[-MANY_STEPS:]], len(old) - len(kept)


def _describe_step(run: StepRecord, record: RunRecord) -> str:
    if run.code is None:
        return "ended with the job" if record.ended else "running"
    took = f" after {format_span(int(max((run.ended or run.begun) - run.begun, 0)))}"
    if run.stopped:
        return f"stopped{took}"
    if has_stopped(record, run):
        return f"ended with the job{took}"
    if run.code == STOPPED_EARLY:
        return f"stopped by the pre-timeout signal{took}"
    return f"succeeded{took}" if not run.code else f"failed with exit code {run.code}{took}"


def _newest(record: RunRecord, rows: Sequence[Row]) -> list[Row]:
    """Rows of the newest start; of an array, whose elements start again each by itself, all."""
    newest = record.restarts + 1
    return [row for row in rows if row.start == newest or record.shape.get("elements")]


def name_log_command(record: RunRecord) -> str:
    """The command that shows the error on one screen."""
    name, cause = f"jobgen logs {defuse(record.alias)}", record.cause
    failed = find_failed_part(record)
    step = f" --{record.part_kind} {defuse(failed)}" if failed else ""
    if cause is not None and cause.file:
        task = f" --task {defuse(cause.task)}" if cause.task else ""
        if cause.rank is None:
            lines = max(LOG_LINES, cause.below + LOG_LINES // 2)
            return f"{name}{task} --file {defuse(cause.file)} -n {lines}"
        if not cause.reports_itself:
            return f"{name}{task}{step} --rank {cause.rank} -n {TRACEBACK}"
        lines = cause.below + TRACEBACK
        stream = "stdout" if cause.file.endswith(".out") else "stderr"
        return f"{name}{task}{step} --rank {cause.rank} --{stream} -n {lines}"
    failures = _newest(record, record.failures)
    first = failures[0] if failures else None
    task = f" --task {defuse(first.task)}" if first and record.shape.get("elements") else ""
    # a failure before the ranks started stands in the job's own log, which is no rank's stderr
    if first is None or first.rank is None:
        return f"{name}{task} -n {LOG_LINES}"
    return f"{name}{task}{step} --rank {first.rank} --stderr -n {TRACEBACK}"


def _describe_failure(failure: RankFailure, *, first: bool) -> str:
    from jobgen.diagnose import describe_exit

    when = "failed first" if first else "failed in the same second"
    when += ", before its ranks started" if failure.rank is None else ""
    who = f"rank {failure.rank} on " if failure.rank is not None else ""
    reason = describe_exit(failure.code, failure.signal)
    return f"{who}{defuse(failure.node)} {when} ({reason})"


def _describe_silence(silence: Silence) -> str:
    return (
        f"rank {silence.rank} on {defuse(silence.node)} ended with exit code 0, and then no rank "
        f"wrote anything for {format_span(silence.seconds)}: the others may be waiting for it"
    )
