"""Markers of a run directory: starts, ends, the claim, failed ranks, nodes found unfit. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jobgen.model.events import (
    CodeRecord,
    RankFailure,
    Silence,
    StepRecord,
    list_codes,
    list_failures,
    list_silences,
    list_step_runs,
)
from jobgen.model.record import JobId
from jobgen.named_tuple import NamedTuple
from jobgen.submission.program_report import read_report
from jobgen.submission.wire import parse_number

if TYPE_CHECKING:
    from jobgen.model.record_data import Submission

LONGEST = 300
"""Characters of a reason that a job gives itself."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The marker of one end: the script's exit code, and whether a signal ended it."""

    code: int
    time: float = 0.0
    node: str = ""
    killed: bool = False
    why: str = ""
    """Why the script ended before the program was started, in its own words."""


class UnfitNode(NamedTuple):
    """A node that the preflight of one start named."""

    start: int
    """The first start is 1."""
    node: str
    what: str


@dataclass(frozen=True, slots=True)
class Markers:
    """The markers of one run directory. Keys are task and restart."""

    claim: JobId | None = None
    started: Mapping[tuple[str, int], float] = field(default_factory=dict)
    jobs: Mapping[tuple[str, int], JobId] = field(default_factory=dict)
    """The job that made each start."""
    requeued: frozenset[tuple[str, int]] = frozenset()
    """Starts that ended to be continued by another one."""
    exits: Mapping[tuple[str, int], Ended] = field(default_factory=dict)
    cancel: bool = False
    cancelled: frozenset[str] = frozenset()
    """Elements of a packed sweep that were cancelled one by one."""
    secrets: bool = False
    full: bool = False
    """Whether an end could not be written down: the disk took a name, and no bytes."""
    missing: bool = False
    unfit: tuple[UnfitNode, ...] = ()
    """Nodes that a preflight named, in order of the starts."""
    failures: tuple[RankFailure, ...] = ()
    """Ranks that failed, of each start the first one first."""
    silences: tuple[Silence, ...] = ()
    """Ranks that ended well while the others seem to wait for them."""
    steps: tuple[StepRecord, ...] = ()
    """The steps that have begun, of each start in their order."""
    codes: tuple[CodeRecord, ...] = ()
    """The code that each start ran, if it stays on the cluster."""
    report: Mapping[str, float] = field(default_factory=dict)
    """What the program reported of itself."""
    arrays: Mapping[str, str] = field(default_factory=dict)
    """Number → job id of the jobs after the first one: arrays of a sweep, entries of a race, jobs
    of a chain."""
    arrays_failed: str = ""
    """Why some of them were not submitted."""
    withdrawn: bool = False
    """Of a race: whether the winner has seen that no other job waits any more."""
    complete: bool = True
    """Whether every marker was read; what is missing from others proves nothing."""

    def list_arrays(self) -> Submission:
        """The jobs of a run after its first one, as the run database keeps them."""
        known: Submission = {}
        if self.arrays:
            known["arrays"] = dict(self.arrays)
        if self.withdrawn:
            known["withdrawn"] = True
        if self.arrays_failed:
            known["arrays_failed"] = self.arrays_failed
        return known

    @property
    def restarts(self) -> int:
        """How often it was started again."""
        return max((restart for _, restart in self.started), default=0)

    @property
    def newest(self) -> Mapping[str, int]:
        """Each task with its newest restart."""
        newest: dict[str, int] = {}
        for task, restart in (*self.started, *self.exits):
            newest[task] = max(restart, newest.get(task, 0))
        return newest

    @property
    def end(self) -> Ended | None:
        """The end of the whole run: its first failure, or its last end; None while a task lacks
        one. The end of an earlier start is no end."""
        ends = [self.exits.get(key) for key in self.newest.items()]
        if not ends or any(end is None for end in ends):
            return None
        known = [end for end in ends if end is not None]
        return next((end for end in known if end.code), max(known, key=lambda end: end.time))

    @property
    def newest_job(self) -> JobId | None:
        """The job of the newest start of a run without elements."""
        return self.jobs.get(("0", self.restarts))

    @property
    def finished(self) -> bool:
        """Whether the script has ended by itself, so that no other start follows."""
        return self.end is not None and not self.end.killed

    @property
    def ran(self) -> int | None:
        """Seconds from the newest start to the end."""
        end = self.end
        begun = max(self.started.values(), default=0.0)
        return int(end.time - begun) if end and begun and end.time >= begun else None


def read_markers(told: Mapping[str, list[str]]) -> Markers:
    """The markers of one run, from the frames that ``look`` sent. Damaged lines are left out."""
    marks = [m for text in told.get("marks", []) for m in map(_MARK.search, text.split("\n")) if m]
    starts = {_key(m): float(m["time"]) for m in marks if m["kind"] == "started"}
    recorded = _tasks(told.get("events", []))
    return Markers(
        claim=next((job for m in marks if (job := _claim(m)) is not None), None),
        started=starts,
        jobs={_key(m): job for m in marks if (job := _starter(m)) is not None},
        requeued=frozenset(_key(m) for m in marks if m["kind"] == "requeued"),
        exits={
            (task, restart): end
            for task, restart, words in _tasks(told.get("exit", []))
            if (end := _ended(words)) is not None
        },
        cancel="cancel" in told,
        cancelled=frozenset(m["task"] for m in marks if m["kind"] == "cancel"),
        secrets="secrets" in told,
        full="full" in told or any(not words for *_, words in _tasks(told.get("exit", []))),
        missing="missing" in told,
        unfit=_unfit(told.get("preflight", [])),
        failures=tuple(
            f for task, start, text in recorded for f in list_failures(start + 1, text, task)
        ),
        silences=tuple(
            s for task, start, text in recorded for s in list_silences(start + 1, text, task)
        ),
        steps=tuple(
            s for task, start, text in recorded for s in list_step_runs(start + 1, text, task)
        ),
        codes=tuple(c for task, start, text in recorded for c in list_codes(start + 1, text, task)),
        report=read_report(told.get("report", [])),
        arrays=dict(_read_arrays(told.get("array", []))),
        arrays_failed="\n".join(told.get("arrays-failed", []))[:LONGEST],
        withdrawn=any(text.split()[-1:] == ["all"] for text in told.get("withdrawn", [])),
        complete="looked" in told,
    )


def _read_arrays(texts: list[str]) -> Iterator[tuple[str, str]]:
    """``NUMBER JOB`` of each text."""
    for text in texts:
        if found := re.fullmatch(r"(\d{1,5}) (\d{1,18})\s*", text, re.ASCII):
            yield found[1], found[2]


# 1795268400 'state/0/started.1' -> '42.99', as stat writes it; other quotes are possible
_MARK = re.compile(
    r"^(?P<time>\d{1,12}) \W?state/(?P<task>[\w.-]+)/"
    r"(?P<kind>cancel|claim|started|requeued)(?:\.(?P<restart>\d{1,6}))?[^\w\s]?"
    r"(?: -> [^\w\s]?(?P<target>[^'\"]*))?",
    re.ASCII,
)


def _key(mark: re.Match[str]) -> tuple[str, int]:
    return mark["task"], int(mark["restart"] or 0)


def _tasks(texts: list[str]) -> list[tuple[str, int, str]]:
    """``TASK RESTART REST`` of each text."""
    found = []
    for text in texts:
        task, _, rest = text.partition(" ")
        restart, _, words = rest.partition(" ")
        count = parse_number(restart)
        if task and count is not None:
            found.append((task, int(count), words))
    return found


def _claim(mark: re.Match[str]) -> JobId | None:
    return JobId.read(mark["target"] or "") if mark["kind"] == "claim" else None


def _starter(mark: re.Match[str]) -> JobId | None:
    """The job of ``JOB.PID`` that a start points to."""
    head = (mark["target"] or "").partition(".")[0]
    return JobId(int(head)) if mark["kind"] == "started" and head.isdecimal() else None


def _ended(words: str) -> Ended | None:
    words, _, why = words.partition(" why=")
    said = dict(word.partition("=")[::2] for word in words.split())
    code = parse_number(said.get("rc", ""))
    if code is None:
        return None
    time = parse_number(said.get("time", "")) or 0.0
    killed = said.get("end") == "killed"
    return Ended(int(code), time, said.get("node", ""), killed, why.strip()[:LONGEST])


def _unfit(texts: list[str]) -> tuple[UnfitNode, ...]:
    """Lines ``bad NODE WHAT FIX`` with tabs between; what makes no sense is left out."""
    found = set()
    for _, restart, lines in _tasks(texts):
        for line in lines.split("\n"):
            level, *words = line.split("\t")
            if level in ("bad", "wrong") and len(words) >= 2:
                found.add(UnfitNode(restart + 1, words[0][:LONGEST], words[1][:LONGEST]))
    return tuple(sorted(found))
