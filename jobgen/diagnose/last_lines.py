"""What ranks wrote last that others waited for: the cause of a hang is there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from jobgen.diagnose.clues import Clue, Numbered
from jobgen.diagnose.excerpts import cut_line
from jobgen.diagnose.failure_rules import Level
from jobgen.diagnose.log_lines import LogLine, ProcessLog
from jobgen.follow.launcher_noise import drop_noise

MOST = 4
"""Ranks of which the last line is kept."""
_LONGEST = 200
"""Characters of such a line."""
_READ = 200
"""Lines at the end of a log among which it is."""
_OTHERS = re.compile(
    r".*NCCL INFO|slurmstepd|srun: |jobgen: |Terminated\b|Killed\b|Aborted\b|frame #\d"
    r"|\[[DIWEF]\d{4} "
)
"""Lines that the program did not write."""


def list_last_lines(ranks: Sequence[int], streams: Sequence[ProcessLog]) -> tuple[str, ...]:
    """The last line of each of these ranks, with its node, file and number."""
    shown: list[str] = []
    for rank in ranks[:MOST]:
        own = [stream for stream in streams if stream.rank == rank]
        own = own or _list_named(rank, streams)
        shown += _describe_last(f"rank {rank}", own) or [f"rank {rank} wrote no line to these logs"]
    return tuple(shown)


def _list_named(rank: int, streams: Iterable[ProcessLog]) -> list[ProcessLog]:
    """The lines of several processes in one log in which the program's logger names this rank."""
    named = re.compile(rf"\[rank[ :=]?{rank}\]", re.IGNORECASE)
    rows = [
        (stream, tuple(line for line in stream.lines if named.search(line.text)))
        for stream in streams
        if stream.rank is None
    ]
    return [stream._replace(lines=lines) for stream, lines in rows if lines]


def list_silent_lines(streams: Sequence[ProcessLog], seen: Iterable[Clue]) -> tuple[str, ...]:
    """The last lines of the few processes that report no error, if not all are silent."""
    reported = {(each.path, each.origin) for each in seen if each.level < Level.HINT}
    ranks = {stream.rank for stream in streams if (stream.path, stream.origin) in reported}
    known = [stream for stream in streams if stream.rank is not None or stream.origin.node]
    silent = [
        stream
        for stream in known
        if (stream.path, stream.origin) not in reported
        and (stream.rank is None or stream.rank not in ranks)
    ]
    names = dict.fromkeys((stream.rank, stream.origin.node) for stream in silent)
    if not ranks or not 0 < len(names) <= MOST:
        return ()
    shown: list[str] = []
    for rank, node in names:
        own = [s for s in silent if (s.rank, s.origin.node) == (rank, node)]
        shown += _describe_last("" if rank is None else f"rank {rank}", own)
    return tuple(shown)


def _describe_last(name: str, streams: Sequence[ProcessLog]) -> list[str]:
    """The newest line of a process; of several files without times, one of each."""
    last = [(stream, line) for stream in streams if (line := _find_last(stream)) is not None]
    if len(last) > 1 and all(line.time is not None for _, line in last):
        last = [max(last, key=lambda each: each[1].time or 0.0)]
    shown = []
    for stream, line in last[:2]:
        node = stream.origin.node
        who = f"{name} on {node}" if name and node else name or f"node {node}"
        place = f"{stream.path}:{line.number}" if line.number else stream.path
        shown.append(f"last line of {who}, {place}: {cut_line(line.text.strip(), _LONGEST)}")
    return shown


def _find_last(stream: ProcessLog) -> LogLine | None:
    kept = drop_noise(map(Numbered.of, stream.lines[-_READ:]))
    texts = [text for text in kept if isinstance(text, Numbered) and text.strip()]
    own = [text.line for text in texts if not _OTHERS.match(text)]
    return own[-1] if own else None
