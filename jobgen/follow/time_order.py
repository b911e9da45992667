"""What is there of many logs, in the order of time: where lines state none, in that of their files.

A line without a time belongs to the line before it. Files without any time come first, the job's
own log before the ranks; what the batch script concludes from the end of the ranks comes last. The
lines of one file stay in their order, also where its clock was set back.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby, pairwise

from jobgen.follow.collapse import Lines, collapse
from jobgen.follow.line_splitter import keep_last_lines
from jobgen.follow.source import LogSource
from jobgen.follow.timestamps import find_times
from jobgen.named_tuple import NamedTuple

_YEAR = 31_556_952.0
_CONCLUSION = re.compile(rb"^jobgen: .* (?:first|started), with exit code ", re.MULTILINE)


class Passage(NamedTuple):
    """Lines of one source that belong together: the first states the time, or none does."""

    time: float
    """Seconds since 1970 by the clock of the node; infinite before or after all that state one."""
    source: LogSource
    data: bytes


class TimeOrder:
    """Lines of many sources that wait for their place in time."""

    def __init__(self, window: float, after: float | None = None, *, timed: bool = False) -> None:
        """With a ``window`` of seconds, what several ranks write alike within it is shown once.
        ``after`` leaves out what was written before that time; ``timed`` gives lines their times,
        also where one source needs no order."""
        self._timed = timed or after is not None
        self._window = window
        self._after = after
        self._blocks: dict[LogSource, list[bytes]] = {}
        self._latest: dict[LogSource, float] = {}
        """The last time that each source stated."""

    def add(self, source: LogSource, data: bytes) -> None:
        """Keep complete lines of a source."""
        if data:
            self._blocks.setdefault(source, []).append(data)

    def take_all(self, now: float) -> list[Lines]:
        """All that was added, in order."""
        if len(self._blocks) == 1 and not self._timed:
            ((source, parts),) = self._blocks.items()
            self._blocks = {}
            return [Lines(source, b"".join(parts))]
        logs = []
        for source in sorted(self._blocks, key=lambda source: source.order):
            latest = self._latest.get(source, -math.inf)
            data = b"".join(self._blocks[source])
            passages = list(divide(source, data, now, latest, self._window))
            self._latest[source] = passages[-1].time
            logs.append(self._choose(passages))
        self._blocks = {}
        merged = heapq.merge(*logs, key=lambda passage: passage.time)
        slots = _gather(merged, self._window)
        return [lines for slot in slots for lines in _show(slot, collapsed=self._window > 0)]

    def _choose(self, passages: list[Passage]) -> list[Passage]:
        """Those that were written late enough. What states no time follows what does, if any."""
        if self._after is None:
            return passages
        first = next((p.time for p in passages if math.isfinite(p.time)), math.inf)
        return [p for p in passages if max(p.time, first) >= self._after]


def divide(
    source: LogSource,
    data: bytes,
    now: float,
    latest: float = -math.inf,
    window: float = 0.0,
) -> Iterator[Passage]:
    """The lines of one source as passages, none earlier than the one before it; lines within a
    window of seconds are one passage."""
    starts = list(find_times(data, 1970 + int(now / _YEAR), window))
    head = starts[0][0] if starts else len(data)
    conclusion = _CONCLUSION.search(data) if source.stream == "job" and not starts else None
    if conclusion and latest == -math.inf:
        head = conclusion.start()
        starts = [(head, math.inf)]
    if head:
        yield Passage(latest, source, data[:head])
    for (at, time), (end, _) in pairwise([*starts, (len(data), 0.0)]):
        latest = max(latest, time)
        yield Passage(latest, source, data[at:end])


def _gather(passages: Iterable[Passage], window: float) -> Iterator[list[Passage]]:
    """Passages that begin within a window of each other."""
    slot: list[Passage] = []
    for passage in passages:
        if slot and passage.time > slot[0].time + window:
            yield slot
            slot = []
        slot.append(passage)
    if slot:
        yield slot


def _show(slot: list[Passage], *, collapsed: bool) -> Iterator[Lines]:
    time = slot[0].time if math.isfinite(slot[0].time) else None
    if not collapsed or len({passage.source for passage in slot}) == 1:
        for source, group in groupby(slot, key=lambda passage: passage.source):
            yield Lines(source, b"".join(passage.data for passage in group), time=time)
        return
    blocks: dict[LogSource, list[bytes]] = {}
    for passage in slot:
        blocks.setdefault(passage.source, []).append(passage.data)
    for lines in collapse((source, b"".join(data)) for source, data in blocks.items()):
        yield Lines(lines.source, lines.data, lines.also, time=time)


def keep_last(blocks: list[Lines], count: int) -> list[Lines]:
    """The last ``count`` lines of all."""
    kept: list[Lines] = []
    for lines in reversed(blocks):
        if count <= 0:
            break
        data = keep_last_lines(lines.data, count)
        count -= data.count(b"\n")
        kept.append(replace(lines, data=data))
    return kept[::-1]
