"""Thousands of submissions in bad weather, each from a seed: what must hold, holds in all."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from jobgen.submission.states import Begin, CancelAsked, Phase
from jobgen.submission.transitions import ATTEMPTS, step
from tests.submission.world import World

STORMS = 3000
STEPS = 40


class Storm:
    """One submission, and everything that can happen to it, each as often as it is interesting."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)  # noqa: S311 - weather, no secret
        self.world = World()
        self.refuses = self.dice.random() < 0.1
        self.happenings: dict[Callable[[], None], int] = {
            self._go_on: 30,
            self._take_up: 8,
            self._pass_time: 12,
            self._arrive: 8,
            self._look: 8,
            self._die: 3,
            self._freeze: 2 if self.dice.random() < 0.3 else 0,
            self._crash: 2 if self.dice.random() < 0.3 else 0,
            self._kill: 2 if self.dice.random() < 0.3 else 0,
            self._start_job: 3,
            self._cancel: 1 if self.dice.random() < 0.2 else 0,
        }

    def run(self) -> None:
        whats, weights = list(self.happenings), list(self.happenings.values())
        for _ in range(STEPS):
            self.dice.choices(whats, weights)[0]()
            self.check()

    def check(self) -> None:
        world = self.world
        assert len(world.executed) <= 1
        assert len(world.sbatches) == len(set(world.sbatches)) <= ATTEMPTS
        waiting = [job for job in world.jobs.values() if job.state == "PENDING"]
        assert len(waiting) <= 1 + len(world.forgotten), "two copies were accepted"

    def end(self) -> None:
        """Calm weather: it comes to an end, and the end is true."""
        world = self.world
        world.settle()
        phase, job = world.ledger.phase, world.ledger.job
        assert not phase.open
        for each in list(world.jobs.values()):
            world.run(each)
        self.check()
        if phase in (Phase.REJECTED, Phase.CANCELLED) and not world.ledger.cancel:
            assert not world.executed, "what was said not to run has run"
        if phase is Phase.CONFIRMED and world.executed:
            assert job is not None
            assert world.executed == [job.job]
        if phase is Phase.CONFIRMED and not world.directory_cancelled:
            assert world.executed, "what was confirmed never runs"

    def _take_up(self) -> None:
        if self.world.ledger.phase.open and len(self.world.clients) < 3:
            self.world.client(Begin())

    def _go_on(self) -> None:
        if not self.world.clients:
            return self._take_up()
        loss = self.dice.choices(["none", "before", "after"], [8, 1, 1])[0]
        number = self.dice.randrange(len(self.world.clients))
        return self.world.act(number, loss)  # type: ignore[arg-type]

    def _die(self) -> None:
        if self.world.clients:
            self.world.clients.pop(self.dice.randrange(len(self.world.clients)))

    def _pass_time(self) -> None:
        self.world.pass_time(self.dice.choice([0.1, 1.0, 4.0, 6.0, 11.0, 30.0, 50.0, 90.0]))

    def _arrive(self) -> None:
        waiting = [request for request in self.world.requests if not request.arrived]
        if waiting:
            self.world.deliver(self.dice.choice(waiting), refuse=self.refuses)

    def _kill(self) -> None:
        for request in self.world.requests:
            request.waiting = False

    def _freeze(self) -> None:
        self.world.frozen = not self.world.frozen

    def _crash(self) -> None:
        if not self.world.frozen:
            self.world.crash()

    def _start_job(self) -> None:
        if self.world.jobs and not self.world.frozen:
            self.world.run(self.dice.choice(list(self.world.jobs.values())))

    def _look(self) -> None:
        self.world.look()

    def _cancel(self) -> None:
        self.world.ledger = step(self.world.ledger, CancelAsked())[0]
        if self.world.directory is not None:
            self.world.directory.cancel = True


def test_no_storm_makes_it_run_twice_or_ends_in_a_lie() -> None:
    ends: Counter[str] = Counter()
    for seed in range(STORMS):
        storm = Storm(seed)
        try:
            storm.run()
            storm.end()
        except AssertionError as error:
            raise AssertionError(f"storm {seed}: {error}; {storm.world}") from error
        ends[storm.world.ledger.phase] += 1
        ends["second attempt"] += len(storm.world.sbatches) > 1
        ends["id lost"] += bool(storm.world.ledger.lost)
        ends["executed"] += bool(storm.world.executed)
    # the weather was bad enough to mean something
    assert all(
        ends[what] > STORMS / 100
        for what in ("second attempt", "id lost", "executed", Phase.REJECTED, Phase.CANCELLED)
    ), ends
