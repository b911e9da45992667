"""The table of ``ls``: a row a job, in as many columns as the terminal has room for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jobgen.cli.layout import align, clip, fold, format_span, measure
from jobgen.cli.output import Ink, defuse
from jobgen.cli.screens.job_data import dump_job
from jobgen.cli.screens.job_state import (
    GOING,
    compute_elapsed,
    draw_info,
    get_style,
    is_old,
    name_state,
)
from jobgen.cli.screens.race_rows import name_jobs
from jobgen.cli.screens.sweep_rows import draw_elements
from jobgen.model.record import RunRecord
from jobgen.model.units import format_size
from jobgen.shell import split_lines
from jobgen.wording import count

if TYPE_CHECKING:
    from jobgen.app.listing import ListedRuns

HEADS = ("JOB", "JOBID", "CLUSTER", "STATE", "NODES", "ELAPSED", "LEFT", "INFO")
DISPENSABLE = ("NODES", "LEFT", "JOBID", "CLUSTER")
"""Columns that give way to INFO on a narrow terminal, the first one first."""
_ENOUGH = 40
"""Columns of INFO for which no other column is left out."""
_LEAST = 12


def draw_listed(listed: ListedRuns, now: float, ink: Ink, *, clipped: bool) -> str:
    """The jobs that were asked for, and how to list the others."""
    if listed.records:
        more = f"{listed.more} more: jobgen ls -a\n" if listed.more and clipped else ""
        table = draw_jobs(listed.records, now, ink, clipped=clipped)
        return _insert_elements(table, listed) + more + (_name_crowded(listed) if clipped else "")
    if listed.more:
        return "No job matches. List all: jobgen ls -a\n"
    return (
        "No jobs yet. Start one: jobgen submit job.yaml\n"
        "Find jobs submitted from another machine: jobgen recover -c NAME\n"
    )


def _name_crowded(listed: ListedRuns) -> str:
    """The clusters on which runs hold much, by uploads and what ``prune`` measured last."""
    rows = sorted(listed.crowded.items())
    return "".join(
        f"{count(runs, 'run')} {'holds' if runs == 1 else 'hold'} {format_size(size)} or more on "
        f"{defuse(name)}: jobgen prune -c {defuse(name)}\n"
        for name, (runs, size) in rows
    )


def _insert_elements(table: str, listed: ListedRuns) -> str:
    """The table with the elements of each array below it, if they were asked for."""
    lines = table.split("\n")
    drawn = (
        draw_elements(
            listed.elements.get(record.token, ()),
            every=False,
            more=f"jobgen show {defuse(record.alias)} -v",
        )
        for record in listed.records
    )
    below: list[list[str]] = [[], *drawn]
    below += [[] for _ in lines[len(below) :]]
    pairs = zip(lines, below, strict=True)
    return "\n".join(text for line, rows in pairs for text in [line, *rows])


def draw_jobs(records: Sequence[RunRecord], now: float, ink: Ink, *, clipped: bool) -> str:
    """A row a job. On a terminal it is cut to fit; in a pipe nothing is left out."""
    rows = [HEADS, *(_row(record, now) for record in records)]
    kept = _fit(rows, ink.width) if clipped else rows
    head, *lines = split_lines(align(kept))
    painted = [_painted(line, r, ink) for line, r in zip(lines, records, strict=True)]
    shown = "".join(f"{line}\n" for line in (ink("faint", head), *painted))
    hidden = [name for name in _list_filled(rows) if name not in kept[0]]
    if not hidden:
        return shown
    note = f"Not shown: {', '.join(hidden)}; in a pipe nothing is left out"
    return f"{shown}{ink('faint', fold(note, ink.width))}\n"


def _list_filled(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """The heads of columns that hold something."""
    return [head for head, *cells in zip(*rows, strict=True) if any(map(_is_value, cells))]


def _row(record: RunRecord, now: float) -> tuple[str, ...]:
    old = "~" if is_old(record, now) else ""
    return (
        defuse(record.alias),
        name_jobs(record) if record.job else "-",
        defuse(record.site.cluster),
        old + name_state(record),
        str(record.shape.get("packed") or record.shape.get("nodes", "-")),
        old + format_span(compute_elapsed(record, now)),
        old + format_span(_compute_left(record, now)),
        draw_info(record),
    )


def _compute_left(record: RunRecord, now: float) -> float | None:
    if record.left is None or record.state not in GOING:
        return None
    return max(record.left - max(now - record.updated, 0), 0)


def _fit(rows: Sequence[tuple[str, ...]], width: int) -> list[tuple[str, ...]]:
    """Without columns that hold nothing, and without others as long as INFO lacks room."""
    filled = {*_list_filled(rows), "INFO"}
    columns = [column for column in zip(*rows, strict=True) if column[0] in filled]
    info = min(max(map(measure, columns[-1])), _ENOUGH)
    for name in DISPENSABLE:
        if _measure_room(columns, width) >= info:
            break
        columns = [column for column in columns if column[0] != name]
    room = max(_measure_room(columns, width), _LEAST)
    return [(*row[:-1], clip(row[-1], room)) for row in zip(*columns, strict=True)]


def _is_value(cell: str) -> bool:
    return cell.removeprefix("~") != "-"


def _measure_room(columns: Sequence[tuple[str, ...]], width: int) -> int:
    """Columns of the terminal that are left for the last one."""
    return width - sum(max(map(measure, column)) + 2 for column in columns[:-1])


def _painted(line: str, record: RunRecord, ink: Ink) -> str:
    word = name_state(record)
    return line.replace(word, ink(get_style(record.state), word), 1) if ink.colour else line


def dump_listed(listed: ListedRuns) -> list[dict[str, Any]]:
    """The jobs as plain data."""
    return [
        {**dump_job(r), **({"element_rows": [row._asdict() for row in rows]} if rows else {})}
        for r in listed.records
        for rows in [listed.elements.get(r.token, ())]
    ]
