"""Every order of the steps of two clients, the submit script and the scheduler, crashes included.

Where the storms throw dice, this walks all of it, up to a number of faults and of passings of
time. ``--full`` walks further.
"""

from __future__ import annotations

import pickle
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pytest

from jobgen.submission import transitions
from jobgen.submission.states import Begin, Effect, Phase, Resolve
from tests.submission import world as worlds
from tests.submission.world import Job, Sbatch, World

START = World().now
PASSINGS = (6.0, 90.0)
"""Seconds after which sbatch has given up, and after which its credential is of no use."""


@dataclass
class Steps(World):
    """A world whose script is as slow as a real one: what it writes, it writes one by one."""

    faults: int = 1
    """So many may still happen."""
    passings: int = 1
    clients_left: int = 2
    """So many may still come, two at a time."""
    writes: list[tuple[str, int, int]] = field(default_factory=list)
    """What a script has still to write: what, the number of its attempt, the value."""
    fenced: bool = True
    """Whether a job looks for another one's claim."""

    def _answer(self, request: Sbatch, code: int, job: int | None = None) -> None:
        if not request.waiting or self.directory is None:
            return
        request.waiting = False
        if job is not None:
            self.writes.append(("out", request.attempt, job))
        self.writes.append(("code", request.attempt, code))
        if job is not None:
            self.writes.append(("jobid", request.attempt, job))

    def write(self) -> None:
        """The script writes the next thing."""
        what, attempt, value = self.writes.pop(0)
        if self.directory is None:
            return
        if what == "out":
            self.directory.out[attempt] = value
        elif what == "code":
            self.directory.codes[attempt] = (value, self.now)
        else:
            self.directory.jobid = value

    def alive(self, attempt: int) -> bool:
        return super().alive(attempt) or any(each[1] == attempt for each in self.writes)

    def run(self, job: Job) -> None:
        if not self.fenced and self.directory is not None:
            self.directory.claim = None
        super().run(job)
        if not self.fenced and self.directory is not None:
            self.directory.claim = None

    def tidy(self) -> None:
        """Leave out what makes no difference any more, so that equal worlds look equal."""
        self.requests = [request for request in self.requests if not request.arrived]
        self.forgotten = [job for job in self.forgotten if job.state == "PENDING"]
        at_once = [[_at_once(effect) for effect in effects] for effects in self.clients]
        self.clients = at_once
        self._turn_back(self.now - START)

    def _turn_back(self, seconds: float) -> None:
        """Only how long ago things happened counts, and not when."""
        self.now -= seconds
        for request in self.requests:
            request.sent -= seconds
        for job in (*self.jobs.values(), *self.forgotten):
            job.since -= seconds
            job.ended -= seconds if job.ended else 0.0
        times = {name: getattr(self.ledger, name) for name in ("staged", "died", "accepted")}
        earlier = {name: time - seconds for name, time in times.items() if time}
        self.ledger = replace(self.ledger, **earlier)
        if self.directory is not None:
            marks, codes = self.directory.marks, self.directory.codes
            self.directory.marks = {n: time - seconds for n, time in marks.items()}
            self.directory.codes = {n: (code, time - seconds) for n, (code, time) in codes.items()}

    def lose(self, fault: Callable[[], object]) -> None:
        """A fault happens; there is one less to come."""
        self.faults -= 1
        fault()


def _at_once(effect: Effect) -> Effect:
    """Nobody waits here: that time passes is a step of its own."""
    return replace(effect, wait=0.0) if isinstance(effect, Resolve) else effect


Move = tuple[str, Callable[[Steps], object]]


def moves(world: Steps) -> Iterator[Move]:
    """Everything that can happen next."""
    yield from _clients(world)
    yield from _scheduler(world)
    if world.writes:
        yield "the script writes", lambda w: w.write()
    if world.passings:
        for seconds in PASSINGS:
            yield f"{seconds:.0f} s pass", lambda w, s=seconds: _pass(w, s)
    if world.faults:
        yield from _faults(world)


def _clients(world: Steps) -> Iterator[Move]:
    for number in range(len(world.clients)):
        yield f"client {number} acts", lambda w, n=number: w.act(n, "none")
    if world.ledger.phase.open and world.clients_left and len(world.clients) < 2:
        yield "a client comes", _come
    if world.ledger.phase in (Phase.SUBMITTED, Phase.CONFIRMED):
        yield "a client looks", lambda w: w.look()


def _scheduler(world: Steps) -> Iterator[Move]:
    for number, request in enumerate(world.requests):
        if not request.arrived and not world.frozen:
            yield "a request arrives", lambda w, n=number: w.deliver(w.requests[n])
    for job in world.jobs:
        if world.jobs[job].state == "PENDING" and not world.frozen:
            yield f"job {job} starts", lambda w, j=job: w.run(w.jobs[j])
    # what a node was told before the controller crashed
    for number, job in enumerate(world.forgotten):
        if job.state == "PENDING":
            yield f"job {job.id}, forgotten, starts", lambda w, n=number: w.run(w.forgotten[n])


def _faults(world: Steps) -> Iterator[Move]:
    for number in range(len(world.clients)):
        yield f"client {number} dies", lambda w, n=number: w.lose(lambda: w.clients.pop(n))
        for loss in ("before", "after"):
            name = f"client {number} is cut off {loss} its call"
            yield name, lambda w, n=number, s=loss: w.lose(lambda: w.act(n, s))
    for number, request in enumerate(world.requests):
        if request.waiting:
            yield "sbatch is killed", lambda w, n=number: w.lose(lambda: _kill(w, n))
            if not request.arrived:
                name = "the script dies before sbatch sends anything"
                yield name, lambda w, n=number: w.lose(lambda: w.requests.pop(n))
    if world.writes:
        yield "the script dies", lambda w: w.lose(w.writes.clear)
    if world.jobs and not world.frozen:
        yield "the controller crashes", lambda w: w.lose(w.crash)
    yield "the controller freezes or thaws", lambda w: w.lose(lambda: _turn(w))


def _come(world: Steps) -> None:
    world.clients_left -= 1
    world.client(Begin())


def _pass(world: Steps, seconds: float) -> None:
    world.passings -= 1
    world.pass_time(seconds)


def _kill(world: Steps, number: int) -> None:
    world.requests[number].waiting = False


def _turn(world: Steps) -> None:
    world.frozen = not world.frozen


class Flaw(AssertionError):
    """What went wrong, and the steps to it."""


def check(world: World) -> str:
    """What is wrong now; empty if nothing is."""
    if len(world.executed) > 1:
        return f"it was executed by {world.executed}"
    if len(world.sbatches) != len(set(world.sbatches)):
        return "an attempt ran sbatch twice"
    return ""


def check_end(world: Steps) -> str:
    """What is wrong once everything is well again and somebody has looked; empty if nothing is."""
    while world.writes:
        world.write()
    world.settle()
    for job in list(world.jobs.values()):
        world.run(job)
    phase, known = world.ledger.phase, world.ledger.job
    if wrong := check(world):
        return wrong
    if phase.open:
        return "it does not come to an end"
    if phase in (Phase.REJECTED, Phase.CANCELLED) and world.executed:
        return f"it is {phase}, and job {world.executed} ran"
    if phase is Phase.CONFIRMED and not world.executed:
        return "it is confirmed, and never runs"
    if phase is Phase.CONFIRMED and known and world.executed != [known.job]:
        return f"job {known} is known, and {world.executed} ran"
    return ""


def walk(first: Steps) -> Counter[str]:
    """How often each step was taken, from every state that can be reached. Raises Flaw."""
    begin = pickle.dumps(first)
    before: dict[bytes, tuple[bytes, str]] = {begin: (b"", "")}
    todo, taken = deque([begin]), Counter[str]()
    while todo:
        here = todo.popleft()
        if wrong := check_end(pickle.loads(here)):  # noqa: S301 - made here
            raise Flaw("; ".join([*_way(before, here), wrong]))
        for name, move in moves(pickle.loads(here)):  # noqa: S301
            world = pickle.loads(here)  # noqa: S301
            move(world)
            world.tidy()
            there = pickle.dumps(world)
            if there in before:
                continue
            before[there] = here, name
            taken[name] += 1
            todo.append(there)
            if wrong := check(world):
                raise Flaw("; ".join([*_way(before, there), wrong]))
    return taken


def _way(before: dict[bytes, tuple[bytes, str]], state: bytes) -> list[str]:
    steps = []
    while before[state][1]:
        state, name = before[state]
        steps.append(name)
    return steps[::-1]


EVERYTHING = (
    pytest.param({"passings": 0}, id="two clients"),
    pytest.param({"clients_left": 1}, id="time passes"),
    pytest.param({}, id="both", marks=pytest.mark.exhaustive),
    pytest.param({"faults": 2, "clients_left": 1}, id="two faults", marks=pytest.mark.exhaustive),
)


@pytest.mark.slow
@pytest.mark.parametrize("bounds", EVERYTHING)
def test_no_order_of_steps_makes_it_run_twice_or_ends_in_a_lie(bounds: dict[str, int]) -> None:
    taken = walk(Steps(**bounds))
    assert sum(taken.values()) > 5000
    named = " ".join(taken)
    for what in ("crashes", "forgotten", "dies", "cut off after", "killed"):
        assert what in named, what


def test_without_the_claim_it_runs_twice() -> None:
    with pytest.raises(Flaw, match="it was executed by"):
        walk(Steps(fenced=False))


def test_without_the_confirmation_an_id_that_was_lost_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hasty(*args: object) -> transitions.Step:
        state, effects = transitions.step(*args)  # type: ignore[arg-type]
        if state.phase is Phase.SUBMITTED:
            state = replace(state, phase=Phase.CONFIRMED)
        return state, effects

    monkeypatch.setattr(worlds, "step", hasty)
    with pytest.raises(Flaw, match="it is confirmed, and never runs"):
        walk(Steps())
