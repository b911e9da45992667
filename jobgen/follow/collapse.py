"""Equal lines of several ranks, shown once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from jobgen.follow.source import LogSource

HELD = 8 << 20
"""The most bytes that wait for their equals."""


@dataclass(frozen=True, slots=True)
class Lines:
    """One or more complete lines of one source, each ending in a newline, as clean UTF-8."""

    source: LogSource
    data: bytes
    also: tuple[LogSource, ...] = ()
    """Other ranks that said exactly the same."""
    bar: bool = False
    """Whether it is a progress bar that goes on: the next one, or a line, takes its place."""
    time: float | None = None
    """When it was written, in seconds since 1970 by the clock of the node, or of this machine for
    what is followed; None if unknown."""

    def list_texts(self) -> list[str]:
        """The lines as text, without their newlines."""
        texts = self.data.decode("utf-8", "backslashreplace").split("\n")
        return texts if texts[-1] else texts[:-1]


class Window:
    """Lines that arrived within a moment of each other; time comes in as an argument."""

    def __init__(self, seconds: float, *, held: int = HELD) -> None:
        self._seconds = seconds
        self._most = held
        self._held = 0
        self._since: float | None = None
        self._blocks: dict[LogSource, list[bytes]] = {}

    def add(self, source: LogSource, data: bytes, now: float) -> list[Lines]:
        """Keep these lines for a moment; gives back what is due."""
        due = self.take_due(now)
        if self._since is None:
            self._since = now
        self._blocks.setdefault(source, []).append(data)
        self._held += len(data)
        return due + self.flush() if self._held > self._most else due

    @property
    def due(self) -> float | None:
        """When the moment has passed; None where nothing waits."""
        return None if self._since is None else self._since + self._seconds

    def take_due(self, now: float) -> list[Lines]:
        """Everything, once the moment has passed; a clock that ran backwards ends it too."""
        if self._since is None or self._since <= now < self._since + self._seconds:
            return []
        return self.flush()

    def flush(self) -> list[Lines]:
        """Everything that waited, collapsed."""
        # what arrived in one moment has no order of its own: ranks as people count them
        order = sorted(self._blocks, key=lambda source: source.order)
        blocks = {source: b"".join(self._blocks[source]) for source in order}
        self._blocks, self._held, self._since = {}, 0, None
        return list(collapse(blocks.items()))


def collapse(blocks: Iterable[tuple[LogSource, bytes]]) -> Iterator[Lines]:
    """The blocks in their order, with lines that several ranks share taken out and shown once.

    A rank's lines stay in their order; a line that one rank said twice counts twice.
    """
    families: dict[str, list[tuple[LogSource, bytes]]] = defaultdict(list)
    for source, data in blocks:
        families[source.stream].append((source, data))
    for members in families.values():
        yield from _collapse_family(members)


def _collapse_family(members: Sequence[tuple[LogSource, bytes]]) -> Iterator[Lines]:
    (first, said), others = members[0], members[1:]
    if others and all(data == said for _, data in others):
        yield Lines(first, said, tuple(source for source, _ in others))
        return
    split = [(source, _split(data)) for source, data in members]
    shared = _shared([lines for _, lines in split])
    if not shared:
        yield from (Lines(source, data) for source, data in members)
        return
    sayers: dict[tuple[bytes, int], list[LogSource]] = defaultdict(list)
    for source, lines in split:
        for key in _numbered(lines, shared):
            sayers[key].append(source)
    for source, lines in split:
        yield from _own(source, lines, shared, sayers)


_TRACEBACK = b"Traceback (most recent call last):"
_CONNECTORS = (
    b"The above exception was the direct cause of the following exception:",
    b"During handling of the above exception, another exception occurred:",
)


def _split(data: bytes) -> list[bytes]:
    """The lines; a traceback up to its exception is one, since its lines mean nothing apart."""
    lines = data.split(b"\n")[:-1]
    if _TRACEBACK not in data:
        return lines
    units: list[bytes] = []
    inside = False
    for line in lines:
        begins = line == _TRACEBACK
        if inside and (begins or line[:1] in (b" ", b"\t", b"")):
            units[-1] += b"\n" + line
        else:
            units.append(line)
            inside = begins or line in _CONNECTORS
    return units


def _shared(blocks: Sequence[Sequence[bytes]]) -> set[bytes]:
    """Lines that stand in more than one block."""
    if _all_differ(blocks):
        return set()
    seen: set[bytes] = set()
    shared: set[bytes] = set()
    for lines in blocks:
        here = set(lines)
        shared |= seen & here
        seen |= here
    return shared


def _all_differ(blocks: Sequence[Sequence[bytes]]) -> bool:
    """Whether no line is there twice, as where each carries a rank and a step: half the work."""
    seen: set[bytes] = set()
    count = 0
    for lines in blocks:
        seen.update(lines)
        count += len(lines)
        if len(seen) < count:
            return False
    return True


def _numbered(lines: Iterable[bytes], shared: set[bytes]) -> Iterator[tuple[bytes, int]]:
    """Each shared line with how often it was said before, so that repetitions are not lost."""
    said: Counter[bytes] = Counter()
    for line in lines:
        if line in shared:
            yield line, said[line]
            said[line] += 1


def _own(
    source: LogSource,
    lines: Sequence[bytes],
    shared: set[bytes],
    sayers: dict[tuple[bytes, int], list[LogSource]],
) -> Iterator[Lines]:
    """The lines that this source is the first to say, runs of equal sayers in one block."""
    said: Counter[bytes] = Counter()
    run: list[bytes] = []
    also: tuple[LogSource, ...] = ()
    for line in lines:
        others: tuple[LogSource, ...] = ()
        if line in shared:
            group = sayers[line, said[line]]
            said[line] += 1
            if group[0] != source:
                continue
            others = tuple(group[1:])
        if run and others != also:
            yield Lines(source, b"\n".join(run) + b"\n", also)
            run = []
        run.append(line)
        also = others
    if run:
        yield Lines(source, b"\n".join(run) + b"\n", also)
