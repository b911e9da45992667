"""Ranks in words: which one failed first, and which one the others may be waiting for."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from jobgen.cli.layout import format_span
from jobgen.cli.output import defuse
from jobgen.model.record import RunRecord

if TYPE_CHECKING:
    from jobgen.model.events import RankFailure, Silence

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


def _newest(record: RunRecord, rows: Sequence[Row]) -> list[Row]:
    """Rows of the newest start; of an array, whose elements start again each by itself, all."""
    newest = record.restarts + 1
    return [row for row in rows if row.start == newest or record.shape.get("elements")]


def name_log_command(record: RunRecord) -> str:
    """The command that shows the error log: of the rank that failed first, if it is known."""
    failures = _newest(record, record.failures)
    first = failures[0] if failures else None
    task = f" --task {defuse(first.task)}" if first and record.shape.get("elements") else ""
    rank = f" --rank {first.rank}" if first and first.rank is not None else ""
    return f"jobgen logs {defuse(record.alias)}{task}{rank} --stderr -n 50"


def _describe_failure(failure: RankFailure, *, first: bool) -> str:
    when = "failed first" if first else "failed in the same second"
    node = defuse(failure.node)
    who = (
        f"{node}, before its ranks started,"
        if failure.rank is None
        else f"rank {failure.rank} on {node}"
    )
    return f"{who} {when}: {_describe_end(failure)}"


def _describe_end(failure: RankFailure) -> str:
    """``exit code 7``, ``killed by SIGKILL (exit code 137)``."""
    if not failure.signal:
        return f"exit code {failure.code}"
    try:
        name = signal.Signals(failure.signal).name
    except ValueError:
        name = f"signal {failure.signal}"
    return f"killed by {name} (exit code {failure.code})"


def _describe_silence(silence: Silence) -> str:
    return (
        f"rank {silence.rank} on {defuse(silence.node)} ended with exit code 0, and then no rank "
        f"wrote anything for {format_span(silence.seconds)}: the others may be waiting for it"
    )
