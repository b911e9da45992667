"""Ranks in words: which one failed first, and which one the others may be waiting for."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from jobgen.cli.layout import span
from jobgen.cli.output import safe
from jobgen.model.record import RunRecord

if TYPE_CHECKING:
    from jobgen.model.events import Failure, Silence


def describe_ranks(record: RunRecord) -> list[str]:
    """Sentences about the ranks of the newest start; none where nothing was recorded."""
    newest = record.restarts + 1
    failures = [failure for failure in record.failures if failure.start == newest]
    silences = [silence for silence in record.silences if silence.start == newest]
    return [
        *(_describe_failure(failure, first=failure is failures[0]) for failure in failures),
        *(_describe_silence(silence) for silence in silences),
    ]


def error_log_command(record: RunRecord) -> str:
    """The command that shows the error log: of the rank that failed first, where it is known."""
    newest = record.restarts + 1
    ranks = [failure.rank for failure in record.failures if failure.start == newest]
    chosen = f" --rank {ranks[0]}" if ranks and ranks[0] is not None else ""
    return f"jobgen logs {safe(record.alias)}{chosen} --stderr -n 50"


def _describe_failure(failure: Failure, *, first: bool) -> str:
    when = "failed first" if first else "failed in the same second"
    node = safe(failure.node)
    who = (
        f"{node}, before its ranks started,"
        if failure.rank is None
        else f"rank {failure.rank} on {node}"
    )
    return f"{who} {when}: {_describe_end(failure)}"


def _describe_end(failure: Failure) -> str:
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
        f"rank {silence.rank} on {safe(silence.node)} ended with exit code 0, and then no rank "
        f"wrote anything for {span(silence.seconds)}: the others may be waiting for it"
    )
