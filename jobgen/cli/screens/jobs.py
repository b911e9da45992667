"""The answers of ``show``, ``wait`` and ``cancel``."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from jobgen.cli.layout import align, fold, format_span
from jobgen.cli.output import Ink, defuse
from jobgen.cli.screens import sweep_rows
from jobgen.cli.screens.chain_rows import list_chain_rows
from jobgen.cli.screens.job_state import (
    compute_elapsed,
    draw_info,
    get_style,
    is_old,
    name_state,
)
from jobgen.cli.screens.race_rows import list_race, name_jobs
from jobgen.cli.screens.ranks import LOG_LINES, describe_ranks, describe_steps, name_log_command
from jobgen.cli.screens.run_files import format_location
from jobgen.model.record import JobState, RunRecord
from jobgen.wording import count

if TYPE_CHECKING:
    from jobgen.app.jobs import RunView

SCREEN = 25
"""Lines of a screen: the default of ``show`` fits it."""
UNFIT, REPORTED = 3, 8
"""Nodes that the preflight named, and values that the program reported, on one screen."""
_UNFINISHED = "98:0"
"""How Slurm shows the exit code of a job that the pre-timeout signal stopped before its end."""
_STEPS_OF_SUBMIT = frozenset({"planned", "staged", "submitting"})
"""Events that matter only while the job is being submitted."""
_STOPPED = frozenset({JobState.TIMEOUT, JobState.DEADLINE, JobState.PREEMPTED})
_STOPPED |= {JobState.NODE_FAIL, JobState.BOOT_FAIL}
"""Ends that are no error of the program: its last lines show how far it came."""
_GO_ON = ("to go on", "jobgen submit job.yaml  # resumes if checkpoint.dir is set")


# one job


def draw_run(
    found: RunView, now: float, ink: Ink, *, gpus: bool = False, verbose: bool = False
) -> str:
    """One job: its state, why, and where; then its error, timeline, files and next commands.

    On one screen, except with ``verbose`` or ``gpus``.
    """
    record = found.record
    error = _draw_error(record, ink, verbose=verbose)
    head = "\n".join(_draw_head(found, now, ink, verbose=verbose)) + "\n"
    sections = _draw_details(found, now, ink, gpus=gpus)
    used = sum(part.count("\n") + 1 for part in (head, error, *sections) if part)
    room = None if verbose else max(SCREEN - used - 2, 0)
    parts = [head, error, _draw_timeline(found, now, ink, room), *sections]
    return "\n".join(part for part in parts if part)


def _draw_head(found: RunView, now: float, ink: Ink, *, verbose: bool) -> list[str]:
    """The state; why; where; and what else is known of the ranks."""
    record = found.record
    ids = name_jobs(record)
    job = f"Slurm {ids}" if record.site.scheduler == "slurm" else f"job {ids}"
    job = job if record.job else "no job id"
    head = f"{ink('strong', defuse(record.alias))} ({job}, {defuse(record.site.cluster)})"
    took, word = compute_elapsed(record, now), "after" if record.ended else "for"
    during = f" {word} {format_span(took)}" if took else ""
    lines = [f"{head}  {ink(get_style(record.state), name_state(record))}{during}"]
    if record.cause is not None and record.ended:
        from jobgen.cli.screens import failure

        lines += failure.draw_cause(record.cause, ink, nodes=record.nodes)
    else:
        lines += [_indent(draw_info(record), ink)] if draw_info(record) else []
    explained = record.cause is not None and record.ended and not record.elements
    ranks = [] if explained else describe_ranks(record)
    lines += [_indent(text, ink) for text in (ranks if verbose else ranks[:UNFIT])]
    lines += [_indent(text, ink) for text in describe_steps(record)]
    if is_old(record, now):
        lines.append(f"  last update {format_span(max(now - record.updated, 0))} ago")
    most = len(record.unfit) if verbose else UNFIT
    rows = sweep_rows.draw_elements(found.elements, every=verbose)
    about = [
        *_list_sets(record),
        *list_race(record),
        *list_chain_rows(record),
        *_list_allocation(record),
        *_list_elements(record, found.values),
        *rows,
        *_list_unfit(record)[:most],
    ]
    if len(record.unfit) > most:
        nodes = count(len(record.unfit) - most, "more node")
        about.append(f"and {nodes}: jobgen show {defuse(record.alias)} -v")
    if record.report:
        values = [f"{defuse(key)} {_format_number(value)}" for key, value in record.report.items()]
        more = ["…"] if len(values) > REPORTED and not verbose else []
        shown = values if verbose else values[:REPORTED]
        about.append(f"reported: {', '.join([*shown, *more])}")
    return [*lines, *(_indent(text, ink) for text in about)]


def _draw_error(record: RunRecord, ink: Ink, *, verbose: bool) -> str:
    """The lines of the log that show why a job failed."""
    if record.cause is None or not record.ended:
        return ""
    from jobgen.cli.screens import failure

    return failure.draw_error(record.cause, record, ink, verbose=verbose)


def _list_sets(record: RunRecord) -> list[str]:
    """``--set LR=1e-3 time=8h``; the entries of a race have lines of their own."""
    words = [defuse(word) for word in record.sets if not word.startswith("race=")]
    return [f"--set: {', '.join(words)}"] if words else []


def _indent(text: str, ink: Ink) -> str:
    return f"  {fold(text, ink.width - 2, '  ')}"


_LARGEST = 1e15
"""Above, a number is shown in powers of ten."""


def _format_number(value: float) -> str:
    """A reported number: a whole one with all its digits."""
    is_whole = float(value).is_integer() and abs(value) < _LARGEST
    return f"{value:,.0f}" if is_whole else f"{value:,.10g}"


def _list_allocation(record: RunRecord) -> list[str]:
    """The allocation that the run is a step of; nothing for a job of its own."""
    inside = defuse(record.site.inside)
    return [f"inside job {inside}: cancel ends this run, not the allocation"] if inside else []


def _list_unfit(record: RunRecord) -> list[str]:
    """What the preflights found wrong with nodes."""
    return [
        f"preflight of start {start}: {defuse(node)}: {defuse(what)}"
        for start, node, what in record.unfit
    ]


def _draw_timeline(found: RunView, now: float, ink: Ink, room: int | None) -> str:
    """The newest events that fit; without a limit, every one."""
    events = [h for h in found.timeline if room is None or h.kind not in _STEPS_OF_SUBMIT]
    rows = [(_clock(h.time, now), defuse(h.text)) for h in events]
    rows = rows if room is None else rows[len(rows) - min(room, len(rows)) :]
    return f"{ink('strong', 'Timeline')}\n{align(rows, indent='  ')}" if rows else ""


def _draw_details(found: RunView, now: float, ink: Ink, *, gpus: bool) -> list[str]:
    """GPUs, files, and the next commands."""
    record, parts = found.record, []
    if found.watched is not None:
        from jobgen.cli.screens import monitor

        parts.append(monitor.draw_section(found.watched, now, ink, gpus=gpus))
    elif gpus:
        how = "monitor: 30s in the job file writes down what they do"
        parts.append(f"{ink('strong', 'GPUs')}  not watched: {how}\n")
    if found.kept is not None:
        from jobgen.cli.screens import origin

        parts.append(origin.draw_section(found.kept, record, ink))
    if found.files:
        place = f"{ink('strong', 'Files')} in {format_location(record)}"
        names = fold("  ".join(label for label, _ in found.files), ink.width - 2, "  ")
        parts.append(f"{place}\n  {names}\n")
    parts.append(f"{ink('strong', 'Next')}\n{align(_next(record), indent='  ')}")
    return parts


def _list_elements(record: RunRecord, values: Mapping[int, str]) -> list[str]:
    """``elements: 2 running, 34 pending``, and which did not succeed; nothing without an array."""
    words = _count_elements(record)
    lines = [f"elements: {words}"] if words else []
    lines += [f"{defuse(s).lower()}: [{defuse(i)}]" for s, i in record.unsuccessful.items()]
    return [*lines, *(f"  [{index}] {defuse(text)}" for index, text in values.items())]


def _count_elements(record: RunRecord) -> str:
    return ", ".join(f"{n} {defuse(state).lower()}" for state, n in record.elements.items())


def _next(record: RunRecord) -> list[tuple[str, str]]:
    name = defuse(record.alias)
    if record.ended:
        rows = [("logs", f"jobgen logs {name}")]
        if record.state is JobState.COMPLETED:
            return rows
        why = [("diagnose", f"jobgen diagnose {name}")] if record.cause is not None else []
        last = _list_last(record)
        return [*rows, *why] if last[0] == rows[0][0] else [*rows, *why, last]
    return [("follow", f"jobgen logs {name} -f"), ("cancel", f"jobgen cancel {name}")]


def _list_last(record: RunRecord) -> tuple[str, str]:
    """What to read of a job that did not complete, or how to go on; the command behind its name."""
    if record.exit == _UNFINISHED:
        return _GO_ON
    name = defuse(record.alias)
    if record.state is JobState.CANCELLED:
        return ("logs", f"jobgen logs {name}")
    if record.state in _STOPPED:
        return ("last lines", f"jobgen logs {name} -n {LOG_LINES}")
    return ("error log", name_log_command(record))


def _clock(moment: float | None, now: float) -> str:
    if moment is None:
        return "-"
    day = (
        "%H:%M:%S" if time.localtime(moment)[:3] == time.localtime(now)[:3] else "%Y-%m-%d %H:%M:%S"
    )
    return time.strftime(day, time.localtime(moment))


def draw_detached(record: RunRecord, ink: Ink) -> str:
    """What is said when a person leaves: the job goes on, and how to come back."""
    name = defuse(record.alias)
    still = "has ended" if record.ended else f"keeps running ({name_state(record)})"
    rows = [("follow", f"jobgen logs {name} -f"), ("cancel", f"jobgen cancel {name}")]
    return f"{ink('strong', 'Detached.')} {name} {still}.\n{align(rows, indent='  ')}".rstrip("\n")


def draw_ended(record: RunRecord, ink: Ink) -> str:
    """``llama-3  COMPLETED after 3h41m``; of a job that failed the error, then why and where.

    Logs may stand above it, so what matters most stands in the last lines.
    """
    during = f" after {format_span(record.elapsed)}" if record.elapsed is not None else ""
    state = ink(get_style(record.state), name_state(record))
    line = f"{ink('strong', defuse(record.alias))}  {state}{during}"
    if record.state is JobState.COMPLETED:
        return f"{line}\n"
    label, command = _list_last(record)
    if record.cause is None:
        about = f" ({draw_info(record)})" if draw_info(record) else ""
        ranks = "".join(f"  {text}\n" for text in describe_ranks(record))
        return f"{line}{about}\n{ranks}  {label}  {command}\n"
    from jobgen.cli.screens import failure

    error = failure.draw_error(record.cause, record, ink)
    head = "\n".join([line, *failure.draw_cause(record.cause, ink, nodes=record.nodes)])
    rows = [("diagnose", f"jobgen diagnose {defuse(record.alias)}"), (label, command)]
    last = align(rows, indent="  ")
    return "\n".join([*([error] if error else []), head, "", last])


def draw_cancelled(records: Sequence[RunRecord], ink: Ink, *, signal: str) -> str:
    """What became of each."""
    lines = []
    for record in records:
        if signal and not record.ended:
            lines.append(
                f"{defuse(record.alias)}  got {defuse(signal)}; it is {name_state(record)}\n"
            )
        else:
            found = ink(get_style(record.state), name_state(record))
            if record.elements and not record.ended:
                found += f" ({_count_elements(record)})"
            had = "" if record.state is JobState.CANCELLED else "had already ended: "
            lines.append(f"{defuse(record.alias)}  {had if record.ended else ''}{found}\n")
    return "".join(lines)
