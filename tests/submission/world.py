"""A world for the submission machine: a run directory, a controller, clients that die anywhere.

It does what the scripts and Slurm do, one small step at a time, and is cruel where they can be:
a request stays on the wire for as long as its credential lives, an answer is lost before or after
its effect, the controller forgets the last five seconds and hands out the same ids again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from jobgen.model.record import JobId
from jobgen.submission.states import (
    Begin,
    Bury,
    CancelAsked,
    Discard,
    Drop,
    Effect,
    Fact,
    Mark,
    Phase,
    Record,
    Report,
    Resolve,
    Resolved,
    RunDirectoryMissing,
    Sighting,
    Stage,
    Staged,
    Start,
    State,
)
from jobgen.submission.transitions import step

TTL, MESSAGE_TIMEOUT, MIN_JOB_AGE, SAVED_AFTER = 20.0, 5.0, 120.0, 5.0

Loss = Literal["none", "before", "after"]


@dataclass
class Job:
    """A job that the controller accepted."""

    id: int
    attempt: int
    since: float
    state: str = "PENDING"
    ended: float = 0.0


@dataclass
class Sbatch:
    """A request on its way, and the process that waits for its answer."""

    attempt: int
    sent: float
    waiting: bool = True
    arrived: bool = False


@dataclass
class Directory:
    """The run directory."""

    marks: dict[int, float] = field(default_factory=dict)
    out: dict[int, int] = field(default_factory=dict)
    codes: dict[int, tuple[int, float]] = field(default_factory=dict)
    refused: set[int] = field(default_factory=set)
    jobid: int | None = None
    claim: int | None = None
    cancel: bool = False


@dataclass
class World:
    """The other side, and one ledger."""

    now: float = 1000.0
    frozen: bool = False
    next_id: int = 1
    jobs: dict[int, Job] = field(default_factory=dict)
    forgotten: list[Job] = field(default_factory=list)
    requests: list[Sbatch] = field(default_factory=list)
    directory: Directory | None = None
    executed: list[int] = field(default_factory=list)
    sbatches: list[int] = field(default_factory=list)
    ledger: State = field(default_factory=State)
    clients: list[list[Effect]] = field(default_factory=list)

    @property
    def directory_cancelled(self) -> bool:
        """Whether the tombstone is there, or the directory is not."""
        return self.directory is None or self.directory.cancel

    # the controller

    def deliver(self, request: Sbatch, *, refuse: bool = False) -> None:
        """A request reaches the controller, which looks at the age of its credential."""
        if self.frozen or request.arrived:
            return
        request.arrived = True
        if self.now - request.sent > TTL:
            self._answer(request, 1)
        elif refuse:
            if request.waiting and self.directory is not None:
                self.directory.refused.add(request.attempt)
            self._answer(request, 1)
        else:
            job = Job(self.next_id, request.attempt, self.now)
            self.next_id += 1
            self.jobs[job.id] = job
            self._answer(request, 0, job.id)

    def _answer(self, request: Sbatch, code: int, job: int | None = None) -> None:
        if not request.waiting or self.directory is None:
            return
        request.waiting = False
        if job is not None:
            self.directory.out[request.attempt] = job
            self.directory.jobid = job
        self.directory.codes[request.attempt] = (code, self.now)

    def crash(self) -> None:
        """The controller dies and comes back with the state of some seconds ago."""
        young = [j for j in self.jobs.values() if self.now - j.since < SAVED_AFTER]
        for job in young:
            del self.jobs[job.id]
            if job.state == "PENDING":
                self.forgotten.append(job)
        if young:
            self.next_id = min(job.id for job in young)

    def pass_time(self, seconds: float) -> None:
        """sbatch gives up after its time-out; ended jobs leave the queue."""
        self.now += seconds
        for request in self.requests:
            if request.waiting and self.now - request.sent > MESSAGE_TIMEOUT:
                self._answer(request, 1)
        for job in list(self.jobs.values()):
            if job.ended and self.now - job.ended > MIN_JOB_AGE:
                del self.jobs[job.id]

    # jobs

    def run(self, job: Job) -> None:
        """A job starts: its prologue decides whether it goes on."""
        if job.state != "PENDING" or self.directory is None:
            return
        job.state, job.ended = "DONE", self.now
        if self.directory.cancel or self.directory.claim not in (None, job.id):
            return
        if self.directory.claim is None:
            self.directory.claim = job.id
            self.executed.append(job.id)

    def scancel(self, jobs: tuple[JobId, ...]) -> None:
        """Only what waits can be stopped here: a program that runs is short."""
        for each in jobs:
            job = self.jobs.get(each.job)
            if job is not None and job.state == "PENDING" and not self.frozen:
                job.state, job.ended = "CANCELLED", self.now

    # clients

    def client(self, fact: Fact) -> None:
        """A client takes a fact; what it wants is written down before it is done."""
        new, effects = step(self.ledger, fact)
        if self.ledger.cancel and not new.cancel:
            new, _ = step(new, CancelAsked())
        self.ledger = new
        if effects:
            self.clients.append(list(effects))
        elif new.phase.open:
            self.clients.append(list(step(new, Begin())[1]))
            self.ledger = step(new, Begin())[0]

    def act(self, number: int, loss: Loss) -> None:
        """One client does its next effect; the connection may break before or after."""
        effects = self.clients[number]
        effect = effects.pop(0)
        if not effects:
            self.clients.pop(number)
        if loss == "before":
            return
        fact = self.do(effect)
        if fact is not None and loss == "none":
            self.client(fact)

    def do(self, effect: Effect) -> Fact | None:
        """What the script of an effect does over there, and what it tells."""
        if isinstance(effect, Stage):
            self.directory = self.directory or Directory()
            return Staged("/r/a-abcdefgh", self.now)
        if isinstance(effect, Drop):
            self.scancel(effect.jobs)
            return None
        if self.directory is None:
            return RunDirectoryMissing() if isinstance(effect, Start | Resolve) else None
        return self._inside(effect, self.directory)

    def _inside(self, effect: Effect, directory: Directory) -> Fact | None:
        match effect:
            case Record(job):
                directory.jobid = directory.jobid or job.job
            case Bury():
                directory.cancel = True
            case Discard():
                self.directory = None
            case Start(attempt, forget):
                if forget is not None and directory.jobid == forget.job:
                    directory.jobid = None
                self._submit_sh(attempt, directory)
                return self._report(attempt, directory)
            case Resolve(attempt):
                return self._resolved(attempt, directory)
        return None

    def _submit_sh(self, attempt: int, directory: Directory) -> None:
        if directory.jobid is not None or directory.cancel or attempt in directory.marks:
            return
        directory.marks[attempt] = self.now
        self.sbatches.append(attempt)
        self.requests.append(Sbatch(attempt, self.now))

    def _report(self, attempt: int, directory: Directory) -> Report:
        code, ended = directory.codes.get(attempt, (None, 0.0))
        mark = directory.marks.get(attempt)
        return Report(
            attempt,
            self.now,
            host="login",
            mark=None if mark is None else Mark("login", 1, mark),
            code=code,
            ended=ended,
            printed=_job(directory.out.get(attempt)),
            recorded=_job(directory.jobid),
            claim=_job(directory.claim),
            refused=attempt in directory.refused,
            cancel=directory.cancel,
        )

    def _resolved(self, attempt: int, directory: Directory) -> Resolved:
        queue = None if self.frozen else tuple(JobId(job) for job in sorted(self.jobs))
        report = self._report(attempt, directory)
        return Resolved(report, self.alive(attempt), queue, (), TTL, MESSAGE_TIMEOUT)

    def alive(self, attempt: int) -> bool:
        """Whether the process of this attempt still runs."""
        return any(r.waiting for r in self.requests if r.attempt == attempt)

    def look(self) -> None:
        """A later command looks at the job."""
        job = self.ledger.job
        if job is None:
            return
        directory = self.directory or Directory()
        self.client(
            Sighting(
                self.now,
                answered=not self.frozen,
                queued=not self.frozen and job.job in self.jobs,
                claim=_job(directory.claim),
                min_job_age=None if self.frozen else MIN_JOB_AGE,
                cancel=directory.cancel,
            )
        )

    def settle(self) -> None:
        """Everything is well again, and somebody looks every few seconds for an hour."""
        self.frozen = False
        self.clients.clear()
        for _ in range(600):
            for request in self.requests:
                self.deliver(request)
            if self.ledger.phase.open:
                self.client(Begin())
            else:
                self.look()
            while self.clients:
                self.act(0, "none")
                if self.ledger.phase is Phase.RESOLVING:
                    break
            self.clients.clear()
            if not self.ledger.phase.open and self.ledger.phase is not Phase.SUBMITTED:
                break
            self.pass_time(6.0)


def _job(number: int | None) -> JobId | None:
    return None if number is None else JobId(number)
