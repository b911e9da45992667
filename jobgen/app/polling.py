"""What a cluster answers of its runs: one question for all, two where some are gone.

The scheduler's queue and the markers of all run directories come in one answer. Only for jobs
that the queue no longer knows, the accounting is asked too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jobgen.app.job_answers import RunAnswers, get_element_states
from jobgen.model.chain import follow_chain
from jobgen.model.record import JobId, JobState, RunRecord
from jobgen.model.sweep_arrays import list_jobs
from jobgen.scheduler import Scheduler, get_scheduler
from jobgen.shell import Command
from jobgen.submission import scripts, wire
from jobgen.submission.markers import Markers, read_markers
from jobgen.submission.outcome import Seen, lacks_elements

if TYPE_CHECKING:
    from jobgen.transport import Transport

DEADLINE = 45.0
"""Seconds in which one question and a look into all directories is answered."""


@dataclass
class Poll:
    """One round of asking: who asks, by what, and what was heard of each job."""

    transport: Transport
    scheduler: Scheduler
    now: float = 0.0
    """Of the other side's clock."""
    answered: bool = False
    queue: RunAnswers = field(default_factory=RunAnswers)
    past: RunAnswers = field(default_factory=RunAnswers)
    marks: dict[str, Markers] = field(default_factory=dict)
    alive: set[str] = field(default_factory=set)
    """Directories of jobs that the queue does not know, whose logs grow."""
    min_job_age: float | None = None
    silent: bool = False

    def of(self, record: RunRecord) -> Seen:
        """What the cluster answered of one run."""
        if not self.read(record):
            return Seen(self.now, answered=False)
        return Seen(
            self.now,
            self.answered,
            queue=self.queue.merge(record),
            past=self.past.merge(record),
            silent=self.silent,
            alive=record.directory in self.alive,
            markers=self.marks[record.directory],
            min_job_age=self.min_job_age or 0.0,
            packed=self._get_packed_state(record),
            elements=get_element_states(record, self.past.of(record) | self.queue.of(record)),
        )

    def _get_packed_state(self, record: RunRecord) -> JobState | None:
        """The state of the job that the elements of a packed sweep share; None of other runs."""
        seen = self.queue.merge(record) or self.past.merge(record)
        return seen.state if seen is not None and record.shape.get("packed") else None

    def follow(self, record: RunRecord) -> RunRecord:
        """The record of a chain with the job that started last."""
        if not self.read(record):
            return record
        marks = self.marks[record.directory]
        return follow_chain(record, marks.newest_job, over=marks.finished)

    def get_claim(self, record: RunRecord) -> JobId | None:
        """The job that runs, or ran, in the run directory."""
        return self.marks[record.directory].claim if self.read(record) else None

    def read(self, record: RunRecord) -> bool:
        """Whether all markers of a run were read: without them the scheduler's words mislead."""
        marks = self.marks.get(record.directory)
        return marks is not None and marks.complete


def group_by_scheduler(records: Sequence[RunRecord]) -> list[list[RunRecord]]:
    """Those that one scheduler can be asked about at once; the local one lives in its root."""
    groups: dict[Scheduler, list[RunRecord]] = {}
    for record in records:
        groups.setdefault(get_scheduler(record.site), []).append(record)
    return list(groups.values())


def ask_cluster(records: Sequence[RunRecord], transport: Transport) -> Poll:
    """What the scheduler of these runs, which is one, and their run directories answer.

    Raises Unreachable.
    """
    look = Poll(transport, get_scheduler(records[0].site))
    jobs = [job for r in records for job in list_jobs(r)]
    asked = {f"queue{n}": look.scheduler.query(each) for n, each in enumerate(_by_cluster(jobs))}
    directories = [r.directory for r in records]
    result = transport.call(scripts.observe(directories, asked), deadline=DEADLINE)
    try:
        frames = wire.split_frames(result.out)
    except wire.GarbledError:
        return look
    told = wire.index(frames)
    look.now = wire.parse_number(told.get("now", "")) or 0.0
    heard = [look.scheduler.parse_query(wire.read_answer(told, key)) for key in asked]
    look.answered = all(each is not None for each in heard)
    for each in heard:
        look.queue.add(each or {})
    look.marks = {name: read_markers(group) for name, group in wire.split(frames, "run")}
    followed = [look.follow(r) for r in records]
    _ask_past(look, [r for r in followed if look.answered and look.queue.merge(r) is None])
    return look


def _ask_past(look: Poll, gone: Sequence[RunRecord]) -> None:
    """The accounting, and how long the queue remembers: only for jobs that it no longer knows."""
    # a clean end that the job itself wrote down needs no second opinion
    open_ones = [r for r in gone if not _has_succeeded(r, look.marks.get(r.directory))]
    if not open_ones:
        return
    asked = _questions(look, open_ones)
    result = look.transport.call(scripts.command(asked), deadline=DEADLINE)
    try:
        told = wire.index(wire.split_frames(result.out))
    except wire.GarbledError:
        return
    config = wire.read_answer(told, "config")
    settings = look.scheduler.parse_config(config)
    if config.code == 0:
        look.min_job_age = float(settings.min_job_age)
    look.alive = {r.directory for r in open_ones if wire.read_answer(told, _life(r)).out.strip()}
    for key in asked:
        if key.startswith("past"):
            heard = look.scheduler.parse_history(wire.read_answer(told, key))
            look.silent |= heard is None and settings.accounting is not False
            look.past.add(heard or {})


def _questions(look: Poll, gone: Sequence[RunRecord]) -> dict[str, Command]:
    """What is asked about runs that the queue does not know: settings, accounting, fresh logs."""
    asked = {"config": look.scheduler.show_config()}
    for number, each in enumerate(_by_cluster([job for r in gone for job in list_jobs(r)])):
        question = look.scheduler.query_history(each)
        if question is not None:
            asked[f"past{number}"] = question
    # a log that was written to in the last two minutes is enough
    fresh = ("-type", "f", "-mmin", "-2", "-print", "-quit")
    return asked | {_life(r): Command.of("find", f"{r.directory}/logs", *fresh) for r in gone}


def _life(record: RunRecord) -> str:
    """A key of a frame, which has 31 characters at most."""
    return f"life-{record.token[:12]}"


def _has_succeeded(record: RunRecord, marks: Markers | None) -> bool:
    if marks is None or marks.end is None or lacks_elements(record, marks):
        return False
    return marks.end.code == 0


def _by_cluster(jobs: Sequence[JobId]) -> list[list[JobId]]:
    clusters: dict[str, list[JobId]] = {}
    for job in jobs:
        clusters.setdefault(job.cluster, []).append(job)
    return list(clusters.values())
