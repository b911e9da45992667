"""What ranks wrote last that others waited for: the cause of a hang is there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

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


def list_last_lines(
    ranks: Sequence[int], streams: Sequence[ProcessLog], nodes: Mapping[int | None, str]
) -> tuple[str, ...]:
    """The last line of each of these ranks, with its node, file and number; ``nodes`` are those
    of ranks where their logs do not name them."""
    shown: list[str] = []
    for rank in ranks[:MOST]:
        own = [stream for stream in streams if stream.rank == rank]
        own = own or _list_named(rank, streams)
        last = _describe_last(f"rank {rank}", own, nodes.get(rank, ""))
        shown += last or [f"rank {rank} wrote no line to these logs"]
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


def list_silent_lines(
    streams: Sequence[ProcessLog], seen: Iterable[Clue], *, by_file: bool
) -> tuple[str, ...]:
    """The last lines of the few processes that report no error, if not all are silent.

    With ``by_file``, a file of which neither rank nor node is known counts as a process.
    """
    errors = [each for each in seen if each.level < Level.HINT]
    ranks = {each.rank for each in errors}
    places = {(each.path, each.origin.node) for each in errors}
    files = {each.path for each in errors}

    def is_silent(stream: ProcessLog) -> bool:
        if stream.rank is not None:
            return stream.rank not in ranks
        if node := stream.origin.node:
            return (stream.path, node) not in places
        return by_file and stream.path not in files

    silent = [stream for stream in streams if is_silent(stream)]
    names = dict.fromkeys(map(_identify, silent))
    if not errors or not 0 < len(names) <= MOST:
        return ()
    shown: list[str] = []
    for name in names:
        own = [stream for stream in silent if _identify(stream) == name]
        shown += _describe_last("" if own[0].rank is None else f"rank {own[0].rank}", own)
    return tuple(shown)


def _identify(stream: ProcessLog) -> tuple[int | None, str]:
    unknown = stream.rank is None and not stream.origin.node
    return stream.rank, stream.path if unknown else stream.origin.node


def _describe_last(name: str, streams: Sequence[ProcessLog], node: str = "") -> list[str]:
    """The newest line of a process; of several files without times, one of each."""
    last = [(stream, line) for stream in streams if (line := _find_last(stream)) is not None]
    if len(last) > 1 and all(line.time is not None for _, line in last):
        last = [max(last, key=lambda each: each[1].time or 0.0)]
    shown = []
    for stream, line in last[:2]:
        host = stream.origin.node or node
        who = f"{name} on {host}" if name and host else name or f"node {host}"
        place = f"{stream.path}:{line.number}" if line.number else stream.path
        who = f"{who}, " if name or host else ""
        shown.append(f"last line of {who}{place}: {cut_line(line.text.strip(), _LONGEST)}")
    return shown


def _find_last(stream: ProcessLog) -> LogLine | None:
    kept = drop_noise(map(Numbered.of, stream.lines[-_READ:]))
    texts = [text for text in kept if isinstance(text, Numbered) and text.strip()]
    own = [text.line for text in texts if not _OTHERS.match(text)]
    return own[-1] if own else None
