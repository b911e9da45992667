"""How far every log file of a run has been read, and what is new in them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from jobgen.errors import Diagnostic, JobgenError
from jobgen.follow import Follower, Lines, View
from jobgen.model.record import RunRecord

if TYPE_CHECKING:
    from jobgen.transport import Transport
    from jobgen.transport.files import Tail as Seen

BLOCK = 4 << 20
"""The most bytes of log that one look brings, unless there are very many files."""
LEAST_BACKLOG, LONG_LINE = 256 << 10, 4 << 10
"""``-n N`` reads so many bytes of a file at least, and so many for each line."""
OVERLAP = 64
"""Bytes before the end of what was read, by which a file that was begun anew and has grown beyond
that is known."""
STALE = 5.0
"""Seconds after which a file that looks shorter than before, or other, is believed to be so."""
TRIES = 3
"""Looks in a row, of which one may bring everything."""


class Unread(JobgenError):
    """Logs that are there, or should be, could not be read: what was shown is not all."""


@dataclass(slots=True)
class LogTail:
    """How far every file has been read. Offsets are bytes; paths are relative to logs/."""

    view: View
    after: float | None = None
    """With ``view.since``, the time of the cluster's clock from which lines are shown."""
    recent: frozenset[str] | None = None
    """With it, the files that were written to since."""
    offsets: dict[str, int] = field(default_factory=dict)
    shorter: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Files that were shorter than what was read of them: their size, and since when."""

    ends: dict[str, bytes] = field(default_factory=dict)
    """The last bytes that were read of each file, ``OVERLAP`` at most."""
    truncated: list[str] = field(default_factory=list)
    """Files that were begun anew, to be told."""
    follower: Follower = field(init=False)
    settled: bool = False
    """Whether all that was there at first has been read."""
    unread: str = ""
    """What the last look did not bring, and why."""
    failed: int = 0
    """Looks in a row that did not bring everything."""

    def __post_init__(self) -> None:
        self.follower = Follower(self.view, ordered=not self.view.raw, after=self.after)

    def wants(self, path: str) -> bool:
        """Whether this file is read."""
        return self.view.wants(path) and (self.recent is None or path in self.recent)

    def read(
        self, transport: Transport, record: RunRecord, now: Callable[[], float]
    ) -> Generator[Lines, None, bool]:
        """The lines of all that is there now; returns whether the last look found anything.

        The other side already sends the next block while one is worked on.
        """
        logs = f"{record.directory}/logs"
        with run_ahead() as start:
            seen = self._look(transport, logs)
            while True:
                new = self._taken(seen, now())
                again = self._again(seen)
                coming = start(lambda: self._look(transport, logs)) if again else None
                for path, data in new:
                    yield from self.follower.feed(path, data, now())
                yield from self.follower.arrange(now())
                if coming is None:
                    return bool(seen.chunks)
                seen = coming()

    def _look(self, transport: Transport, logs: str) -> Seen:
        from jobgen.transport.files import read_tail

        return read_tail(
            transport, logs, self.offsets, BLOCK, backlog=self._backlog(), overlap=OVERLAP
        )

    def _again(self, seen: Seen) -> bool:
        """Whether to look once more at once; what this look did not bring is noted."""
        wanted = [each for each in seen.unread.items() if not each[0] or self.wants(each[0])]
        self.unread = "; ".join(
            why if path in why else f"{path}: {why}" for path, why in wanted[:3]
        )
        if not self.unread:
            self.failed = 0
            return seen.more
        self.failed += 1
        return self.failed < TRIES or (seen.more and bool(seen.chunks))

    def check(self, record: RunRecord) -> None:
        """Raise Unread where the last look did not bring everything."""
        if self.unread:
            what = f"{record.alias}: not all logs could be read: {self.unread}"
            hint = f"look into {record.directory}/logs on the login host, then run it again"
            raise Unread(Diagnostic("J410", what, hint=hint))

    def _taken(self, seen: Seen, now: float) -> list[tuple[str, bytes]]:
        """What is new in the files that are wanted. How far all have been read is noted."""
        new, other = [], {}
        for chunk in seen.chunks:
            wanted = self.wants(chunk.path)
            data = chunk.data
            if chunk.offset and chunk.path not in self.offsets:
                data = data[data.find(b"\n") + 1 :]  # the rest of a line that began before
            elif chunk.path in self.offsets:
                known = self.ends.get(chunk.path, b"")
                again = self.offsets[chunk.path] - chunk.offset
                if not data[:again].endswith(known[-again:] if again else b""):
                    other[chunk.path] = chunk.size
                    continue
                data = data[again:]
            self.ends[chunk.path] = (self.ends.get(chunk.path, b"") + data)[-OVERLAP:]
            # of a file that nobody wants to see, only what grows later is sent once more
            self.offsets[chunk.path] = chunk.end if wanted else max(chunk.end, chunk.size)
            if wanted:
                new.append((chunk.path, data))
        self._shrunk({**seen.shrunk, **other}, now)
        return new

    def _backlog(self) -> int | None:
        """Bytes before its end from which a file is read that nobody has read yet; None for all."""
        if self.settled or self.view.lines is None or self.view.grep:
            return None
        return max(LEAST_BACKLOG, self.view.lines * LONG_LINE)

    def _shrunk(self, now_shorter: Mapping[str, int], now: float) -> None:
        """Begin a file anew that stays shorter, or other; NFS may show old data for a moment."""
        before, self.shorter = self.shorter, {}
        for path, size in now_shorter.items():
            since = before[path][1] if before.get(path, (None, 0.0))[0] == size else now
            if now - since >= STALE:
                self.offsets[path] = 0
                self.ends.pop(path, None)
                self.truncated.append(path)
            else:
                self.shorter[path] = (size, since)


def begin_tail(transport: Transport, record: RunRecord, view: View) -> LogTail:
    """Where reading begins: with ``--since``, the cluster tells its time and what is recent."""
    view = replace(view, folder=f"{record.directory}/src/")
    if view.since is None:
        return LogTail(view)
    from jobgen.transport.files import list_recent

    clock, paths = list_recent(transport, f"{record.directory}/logs", view.since)
    return LogTail(view, clock - view.since, paths)


@contextmanager
def run_ahead() -> Iterator[Callable[[Callable[[], Seen]], Callable[[], Seen]]]:
    """What starts a look in a thread of its own, and gives back what waits for its answer.

    Who leaves earlier does not wait: the thread ends with the connection.
    """
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(1)
    try:
        yield lambda look: pool.submit(look).result
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
