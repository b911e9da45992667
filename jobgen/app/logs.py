"""The logs of all ranks as one stream, from the beginning or as they grow, through lost links."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from jobgen.app import jobs
from jobgen.app.log_tail import LogTail, begin_tail
from jobgen.app.world import World
from jobgen.errors import Missing, Unreachable
from jobgen.follow import Lines, View
from jobgen.model.record import JobState, RunRecord

if TYPE_CHECKING:
    from jobgen.transport import Transport

POLL = 0.5
"""Seconds between two looks at growing files."""
LONGEST = 30.0
"""Seconds between two tries on a broken link, at the most."""


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """Something that happened beside the lines: a state, a lost or regained link, a truncation."""

    kind: Literal["state", "lost", "back", "truncated", "unread", "empty", "restart", "end"]
    text: str
    t: float = 0.0


def show(world: World, ref: str, view: View) -> Iterator[Lines | StreamEvent]:
    """What the logs hold now; an event where that is nothing.

    Raises Missing where the job has no files yet or its logs were removed, and Unread at the end
    where something is missing.
    """
    record = _get_record(world, ref)
    if not record.directory:
        raise Missing(
            f"{record.alias} has no files yet: {record.state}",
            hint=f"look again with jobgen show {record.alias}",
        )
    with world.connect(record.site.login) as transport:
        tail = begin_tail(transport, record, view)
        yield from tail.read(transport, record, world.now)
        if not tail.unread and not tail.follower.list_sources():
            record = jobs.observe(world, transport, (record,))[0]
            yield StreamEvent("empty", _no_output(record, view))
    yield from tail.follower.close(world.now())
    tail.check(record)


def _get_record(world: World, ref: str) -> RunRecord:
    """The record of a run whose logs were not removed. Raises Missing."""
    record = world.ledger.get(ref)
    for event in world.ledger.list_events(record.token):
        if event.kind == "pruned" and "logs" in event.data.get("parts", ()):
            raise Missing(
                f"the logs of {record.alias} are gone: jobgen prune removed them",
                hint=f"what is kept of the run: jobgen show {record.alias}",
            )
    return record


def _no_output(record: RunRecord, view: View) -> str:
    which = " for these options" if view.narrowed else ""
    yet = "" if record.ended else " yet"
    return f"{record.alias}: no output{which}{yet}; the job is {jobs.describe_state(record)}"


def follow(world: World, ref: str, view: View) -> Iterator[Lines | StreamEvent]:
    """The lines as they come until the job has ended and all is read; events between them.

    Raises Missing where its logs were removed, and Unread at the end where something could not be
    read.
    """
    session = _Session(world, _get_record(world, ref), LogTail(view))
    yield from session.run()


@dataclass(slots=True)
class _Session:
    world: World
    record: RunRecord
    tail: LogTail
    transport: Transport | None = None
    last_query: float = 0.0
    """When the state was last asked for."""
    wait: float = 1.0
    """Seconds until it is asked for again."""
    lost: float = 0.0
    last_state: tuple[JobState, str, int] | None = None

    def run(self) -> Iterator[Lines | StreamEvent]:
        """The lines and events until the job has ended and all is read."""
        for item in self._run():
            # what was there at first has been shown: this arrives now
            arrives = self.tail.settled and self.tail.view.timestamps
            if arrives and isinstance(item, Lines):
                now = self.world.now()
                yield replace(item, time=now + time.localtime(now).tm_gmtoff)
            else:
                yield item

    def _run(self) -> Iterator[Lines | StreamEvent]:
        """Look, show, wait; until it has ended and two looks found nothing."""
        pause = POLL
        try:
            while True:
                try:
                    yield from self._reconnect()
                    if self.last_state is None:
                        yield from self._state()
                    ended = self.record.ended
                    moved = yield from self._lines()
                    if ended and not moved:
                        break
                    pause = 0.0 if ended else (yield from self._pause())
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

    def _pause(self) -> Generator[Lines | StreamEvent, None, float]:
        """Show what waited for its equals, ask for the state; returns the seconds that are left
        until the next look, which neither delays."""
        begun, due = self.world.now(), self.tail.follower.due
        if due is not None:
            self.world.sleep(max(0.0, min(due - begun, POLL)))
            yield from self.tail.follower.tick(max(due, self.world.now()))
        yield from self._state()
        return max(0.0, min(POLL, POLL - (self.world.now() - begun)))

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
            self.tail = begin_tail(self.transport, self.record, self.tail.view)
        before = self.tail.unread
        moved = yield from self.tail.read(self.transport, self.record, self.world.now)
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
