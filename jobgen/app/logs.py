"""The logs of all ranks as one stream, from the beginning or as they grow, through lost links."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from jobgen.app import jobs
from jobgen.app.world import World
from jobgen.errors import Diagnostic, JobgenError, Missing, Unreachable
from jobgen.follow import Follower, Lines, View
from jobgen.model.record import JobState, RunRecord

if TYPE_CHECKING:
    from jobgen.transport import Transport
    from jobgen.transport.files import Tail as Seen

POLL = 0.5
"""Seconds between two looks at growing files; lines appear within twice that."""
BLOCK = 4 << 20
"""The most bytes of log that one look brings."""
LEAST_BACKLOG, LONG_LINE = 256 << 10, 4 << 10
"""``-n N`` reads so many bytes of a file at least, and so many for each line."""
OVERLAP = 64
"""Bytes before the end of what was read, by which a file that was begun anew and has grown beyond
that is known."""
STALE = 5.0
"""Seconds after which a file that looks shorter than before, or other, is believed to be so."""
LONGEST = 30.0
"""Seconds between two tries on a broken link, at the most."""
TRIES = 3
"""Looks in a row, of which one may bring everything."""


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """Something that happened beside the lines: a state, a lost or regained link, a truncation."""

    kind: Literal["state", "lost", "back", "truncated", "unread", "empty", "restart", "end"]
    text: str
    t: float = 0.0


class Unread(JobgenError):
    """Logs that are there, or should be, could not be read: what was shown is not all."""


@dataclass(slots=True)
class _Tail:
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


def show(world: World, ref: str, view: View) -> Iterator[Lines | StreamEvent]:
    """What the logs hold now; an event where that is nothing.

    Raises Missing where the job has no files yet, and Unread at the end where something is missing.
    """
    record = world.ledger.get(ref)
    if not record.directory:
        raise Missing(
            f"{record.alias} has no files yet: {record.state}",
            hint=f"look again with jobgen show {record.alias}",
        )
    with world.connect(record.site.login) as transport:
        tail = _begin(transport, record, view)
        yield from tail.read(transport, record, world.now)
        if not tail.unread and not tail.follower.list_sources():
            record = jobs.observe(world, transport, (record,))[0]
            yield StreamEvent("empty", _no_output(record, view))
    yield from tail.follower.close(world.now())
    tail.check(record)


def _begin(transport: Transport, record: RunRecord, view: View) -> _Tail:
    """Where reading begins: with ``--since``, the cluster tells its time and what is recent."""
    if view.since is None:
        return _Tail(view)
    from jobgen.transport.files import list_recent

    clock, paths = list_recent(transport, f"{record.directory}/logs", view.since)
    return _Tail(view, clock - view.since, paths)


def _no_output(record: RunRecord, view: View) -> str:
    which = " for these options" if view.narrowed else ""
    yet = "" if record.ended else " yet"
    return f"{record.alias}: no output{which}{yet}; the job is {jobs.describe_state(record)}"


def follow(world: World, ref: str, view: View) -> Iterator[Lines | StreamEvent]:
    """The lines as they come until the job has ended and all is read; events between them.

    Raises Unread at the end where something could not be read.
    """
    session = _Session(world, world.ledger.get(ref), _Tail(view))
    yield from session.run()


@dataclass(slots=True)
class _Session:
    world: World
    record: RunRecord
    tail: _Tail
    transport: Transport | None = None
    last_query: float = 0.0
    """When the state was last asked for."""
    wait: float = 1.0
    """Seconds until it is asked for again."""
    lost: float = 0.0
    last_state: tuple[JobState, str, int] | None = None

    def run(self) -> Iterator[Lines | StreamEvent]:
        """Look, show, wait; until it has ended and two looks found nothing."""
        pause = POLL
        try:
            while True:
                try:
                    yield from self._reconnect()
                    yield from self._state()
                    ended = self.record.ended
                    moved = yield from self._lines()
                    pause = POLL
                    if ended and not moved:
                        break
                except Unreachable as error:
                    yield from self._broken(error)
                    pause = min(max(2 * pause, 2.0), LONGEST)
                if not (self.record.ended and self.transport):
                    self.world.sleep(pause)
        finally:
            self._hang_up()
        yield from self.tail.follower.close(self.world.now())
        yield StreamEvent("end", jobs.describe_state(self.record), self.world.now())
        self.tail.check(self.record)

    def _reconnect(self) -> Iterator[StreamEvent]:
        if self.transport is None:
            self.transport = self.world.connect(self.record.site.login)
            if self.lost:
                yield StreamEvent("back", "connection is back", self.world.now())
                self.lost, self.last_query = 0.0, 0.0

    def _broken(self, error: Unreachable) -> Iterator[StreamEvent]:
        self._hang_up()
        if not self.tail.offsets and not self.lost and self.last_state is None:
            raise error
        if not self.lost:
            self.lost = self.world.now()
            yield StreamEvent("lost", f"connection lost: {error}; trying again", self.lost)

    def _hang_up(self) -> None:
        if self.transport is not None:
            self.transport.close()
            self.transport = None

    def _state(self) -> Iterator[StreamEvent]:
        """Ask, but not more often than the controller should be asked."""
        now = self.world.now()
        if self.record.ended or now - self.last_query < self.wait or self.transport is None:
            return
        self.record = jobs.observe(self.world, self.transport, (self.record,))[0]
        self.last_query = self.world.now()
        said = (self.record.state, self.record.reason, self.record.restarts)
        if said == self.last_state:
            self.wait = jobs.choose_pause(self.record, self.wait)
            return
        if self.last_state and said[2] > self.last_state[2]:
            yield StreamEvent("restart", f"restart {said[2]}", now)
        self.wait, self.last_state = 1.0, said
        if not self.record.ended:  # the end is told after the last line
            yield StreamEvent("state", jobs.describe_state(self.record), now)

    def _lines(self) -> Generator[Lines | StreamEvent, None, bool]:
        """All that is there now; returns whether anything was."""
        if not self.record.directory or self.transport is None:
            return False
        if not self.tail.settled and not self.tail.offsets:
            self.tail = _begin(self.transport, self.record, self.tail.view)
        before = self.tail.unread
        moved = yield from self._stamp(self.tail.read(self.transport, self.record, self.world.now))
        if self.tail.unread and not before:
            text = f"not all logs can be read: {self.tail.unread}; trying again"
            yield StreamEvent("unread", text, self.world.now())
        while self.tail.truncated:
            path = self.tail.truncated.pop()
            yield StreamEvent(
                "truncated", f"{path} was truncated: from its beginning", self.world.now()
            )
        if not self.tail.settled:
            yield from self.tail.follower.settle(self.world.now())
            self.tail.settled, self.tail.recent = True, None
        yield from self.tail.follower.tick(self.world.now())
        yield from self.tail.follower.take_bars(self.world.now())
        return moved

    def _stamp(self, items: Generator[Lines, None, bool]) -> Generator[Lines, None, bool]:
        """What came since the beginning, with the time at which it came, if that is asked for."""
        if not (self.tail.view.timestamps and self.tail.settled):
            return (yield from items)
        try:
            while True:
                lines, now = next(items), self.world.now()
                yield replace(lines, time=now + time.localtime(now).tm_gmtoff)
        except StopIteration as end:
            return bool(end.value)
