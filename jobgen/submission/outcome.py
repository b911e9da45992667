"""What became of a run: the scheduler's words and the job's own markers, put together. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jobgen.model.events import Failure, Silence, list_failures, list_silences
from jobgen.model.observation import Observation
from jobgen.model.record import JobId, JobState, RunRecord
from jobgen.submission.report import report
from jobgen.submission.wire import number

UNSURE = (JobState.NODE_FAIL, JobState.PREEMPTED, JobState.BOOT_FAIL)
"""Final words that a requeue may take back: believed when two looks agree."""
SECOND_LOOK = 10.0
"""Seconds between two looks at a job that has vanished, before it is said to be lost."""
LAGGING = 600.0
"""The same where the accounting knows the job and not yet its end."""
SILENT = 3600.0
"""The same where there is an accounting, and it does not answer."""
LONGEST = 300
"""Characters of a reason that a job gives itself."""
NEAR_LIMIT = 60
"""Seconds: Slurm's time limits are kept to the minute."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The marker of one end: the script's exit code, and whether it was told to stop."""

    code: int
    time: float = 0.0
    node: str = ""
    killed: bool = False
    why: str = ""
    """Why the script ended before the program was started, in its own words."""


class Unfit(NamedTuple):
    """A node that the preflight of one start named."""

    start: int
    """The first start is 1."""
    node: str
    what: str


@dataclass(frozen=True, slots=True)
class Markers:
    """What one run directory says. Keys are task and restart."""

    claim: JobId | None = None
    started: Mapping[tuple[str, int], float] = field(default_factory=dict)
    requeued: frozenset[tuple[str, int]] = frozenset()
    exits: Mapping[tuple[str, int], Ended] = field(default_factory=dict)
    cancel: bool = False
    secrets: bool = False
    missing: bool = False
    unfit: tuple[Unfit, ...] = ()
    """Nodes that a preflight named, in order of the starts."""
    failures: tuple[Failure, ...] = ()
    """Ranks that failed, of each start the first one first."""
    silences: tuple[Silence, ...] = ()
    """Ranks that ended well while the others seem to wait for them."""
    report: Mapping[str, float] = field(default_factory=dict)
    """What the program reported of itself."""
    whole: bool = True
    """Whether every marker was read; what is missing from others proves nothing."""

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
    def ran(self) -> int | None:
        """Seconds from the newest start to the end."""
        end = self.end
        begun = max(self.started.values(), default=0.0)
        return int(end.time - begun) if end and begun and end.time >= begun else None


@dataclass(frozen=True, slots=True)
class Seen:
    """One look at a run: everything that was heard at one time."""

    now: float
    """Of the other side's clock."""
    answered: bool
    """Whether the scheduler answered."""
    queue: Observation | None = None
    past: Observation | None = None
    silent: bool = False
    """There is an accounting, and it did not answer."""
    markers: Markers = field(default_factory=Markers)
    elements: Mapping[str, JobState] = field(default_factory=dict)
    """Of an array: element → its state; under "" that of those that have not started."""


def markers(told: Mapping[str, list[str]]) -> Markers:
    """The frames that ``look`` sent for one run. What makes no sense is passed over."""
    marks = [m for text in told.get("marks", []) for m in map(_MARK.search, text.split("\n")) if m]
    starts = {_key(m): float(m["time"]) for m in marks if m["kind"] == "started"}
    recorded = _tasks(told.get("events", []))
    return Markers(
        claim=next((job for m in marks if (job := _claim(m)) is not None), None),
        started=starts,
        requeued=frozenset(_key(m) for m in marks if m["kind"] == "requeued"),
        exits={
            (task, restart): end
            for task, restart, words in _tasks(told.get("exit", []))
            if (end := _ended(words)) is not None
        },
        cancel="cancel" in told,
        secrets="secrets" in told,
        missing="missing" in told,
        unfit=_unfit(told.get("preflight", [])),
        failures=tuple(
            f for task, start, text in recorded for f in list_failures(start + 1, text, task)
        ),
        silences=tuple(
            s for task, start, text in recorded for s in list_silences(start + 1, text, task)
        ),
        report=report(told.get("report", [])),
        whole="looked" in told,
    )


# 1795268400 'state/0/started.1' -> '42.99', as stat writes it; other quotes are possible
_MARK = re.compile(
    r"^(?P<time>\d{1,12}) \W?state/(?P<task>[\w.-]+)/"
    r"(?P<kind>claim|started|requeued)(?:\.(?P<restart>\d{1,6}))?[^\w\s]?"
    r"(?: -> [^\w\s]?(?P<target>[^'\"]*))?",
    re.ASCII,
)


def _key(mark: re.Match[str]) -> tuple[str, int]:
    return mark["task"], int(mark["restart"] or 0)


def outcome(record: RunRecord, seen: Seen) -> dict[str, Any]:
    """The fields of the record that this look changes; empty where it brought no news."""
    if seen.queue is not None:
        return _queued(record, seen.queue, seen.markers)
    if not seen.answered:
        return {}
    if seen.past is not None and seen.past.state.final:
        return _final(record, seen.past, seen.markers)
    end = seen.markers.end
    if end is not None:
        return _by_marker(record, end, seen.markers)
    return _vanished(record, seen)


def _queued(record: RunRecord, seen: Observation, marks: Markers) -> dict[str, Any]:
    if seen.state.final:
        return _final(record, seen, marks)
    return {
        **_common(seen, marks),
        "state": seen.state,
        "ended": False,
        "reason": seen.reason if seen.state is not JobState.RUNNING else "",
    }


def _final(record: RunRecord, seen: Observation, marks: Markers) -> dict[str, Any]:
    """The scheduler says that it has ended."""
    state, end = seen.state, marks.end
    reason = "" if state in _NO_REASON or seen.reason in _EMPTY_REASONS else seen.reason
    if state is JobState.COMPLETED and marks.cancel and not marks.started:
        state, reason = JobState.CANCELLED, "cancelled before it started"
    elif state is JobState.COMPLETED and end is not None and end.code:
        # Slurm can start a job again after a crash; the copy looks around and ends with 0
        state, reason = JobState.FAILED, "Slurm started it once more after it had ended"
    if state is JobState.FAILED and not reason and end is not None:
        reason = end.why
    ended = state not in UNSURE or (record.state is state and record.raw == seen.raw)
    code = seen.exit or (f"{end.code}:0" if end is not None else "")
    return {
        **_common(seen, marks),
        "state": state,
        "reason": reason if ended else "it may be put back into the queue",
        "ended": ended,
        "exit": code or record.exit,
        "left": None,
    }


_NO_REASON = (JobState.COMPLETED, JobState.CANCELLED)
"""Of these the queue still tells why they had waited."""
_EMPTY_REASONS = ("NonZeroExitCode", "JobLaunchFailure")
"""Said of scripts that ran and failed; 22.05 says the second of a script that was killed."""


def _by_marker(record: RunRecord, end: Ended, marks: Markers) -> dict[str, Any]:
    """Gone from the queue, no accounting: the script's own last words."""
    state = JobState.FAILED if end.code else JobState.COMPLETED
    reason = end.why
    if end.killed and marks.cancel:
        state = JobState.CANCELLED
    elif end.killed:
        limit = record.shape.get("seconds")
        if limit and marks.ran is not None and marks.ran >= limit - NEAR_LIMIT:
            state = JobState.TIMEOUT
        reason = "told to end: by the time limit, scancel or a preemption"
    return {
        "state": state,
        "raw": "",
        "reason": reason,
        "exit": f"{end.code}:0",
        "ended": True,
        "elapsed": marks.ran if marks.ran is not None else record.elapsed,
        "left": None,
        "restarts": marks.restarts,
    }


def _vanished(record: RunRecord, seen: Seen) -> dict[str, Any]:
    """Neither in the queue, nor in the accounting, and it left no word."""
    since = record.submission.get("gone")
    patience = SILENT if seen.silent else LAGGING if seen.past is not None else SECOND_LOOK
    if since is None or seen.now - since < patience:
        first = seen.now if since is None else since
        return {"submission": {**record.submission, "gone": first}}
    marks = seen.markers
    lost: dict[str, Any] = {"state": JobState.LOST, "raw": "", "ended": True, "left": None}
    if marks.cancel:
        how = "it left no exit code" if marks.started else "before it started"
        return {**lost, "state": JobState.CANCELLED, "reason": f"cancelled; {how}"}
    if marks.missing:
        return {**lost, "reason": "its run directory is gone, and the scheduler has forgotten it"}
    if not marks.started:
        why = "it left the queue before it started; perhaps it was cancelled there"
        return {**lost, "reason": why}
    if marks.requeued and max(marks.requeued)[1] >= marks.restarts:
        why = "it was put back into the queue and left it before it started again"
        return {**lost, "reason": why}
    why = "it was killed and left no exit code: time limit, out of memory, or a node failed"
    return {**lost, "reason": f"{why}; the accounting does not tell"}


def _common(seen: Observation, marks: Markers) -> dict[str, Any]:
    return {
        "raw": seen.raw,
        "nodes": seen.nodes,
        "started": seen.start,
        "elapsed": seen.elapsed,
        "left": seen.left,
        "restarts": max(marks.restarts, seen.restarts),
    }


def count_elements(total: int, seen: Seen) -> dict[str, int]:
    """How many elements of an array are in each state, as the scheduler and their markers say."""
    states = {task: state for task, state in seen.elements.items() if task}
    for task, restart in seen.markers.newest.items():
        end = seen.markers.exits.get((task, restart))
        if end is not None:
            ended = JobState.FAILED if end.code else JobState.COMPLETED
            states.setdefault(task, JobState.CANCELLED if end.killed else ended)
        else:
            states.setdefault(task, JobState.UNKNOWN)
    counts = Counter(states.values())
    if total > len(states):
        counts[seen.elements.get("", JobState.UNKNOWN)] += total - len(states)
    return {str(state): count for state, count in counts.items()}


def _tasks(texts: list[str]) -> list[tuple[str, int, str]]:
    """``TASK RESTART REST`` of each text."""
    found = []
    for text in texts:
        task, _, rest = text.partition(" ")
        restart, _, words = rest.partition(" ")
        count = number(restart)
        if task and count is not None:
            found.append((task, int(count), words))
    return found


def _claim(mark: re.Match[str]) -> JobId | None:
    if mark["kind"] != "claim":
        return None
    try:
        return JobId.parse(mark["target"] or "")
    except ValueError:
        return None


def _ended(words: str) -> Ended | None:
    words, _, why = words.partition(" why=")
    said = dict(word.partition("=")[::2] for word in words.split())
    code = number(said.get("rc", ""))
    if code is None:
        return None
    time = number(said.get("time", "")) or 0.0
    killed = said.get("end") == "killed"
    return Ended(int(code), time, said.get("node", ""), killed, why.strip()[:LONGEST])


def _unfit(texts: list[str]) -> tuple[Unfit, ...]:
    """Lines ``bad NODE WHAT FIX`` with tabs between; what makes no sense is left out."""
    found = set()
    for _, restart, lines in _tasks(texts):
        for line in lines.split("\n"):
            level, *words = line.split("\t")
            if level in ("bad", "wrong") and len(words) >= 2:
                found.add(Unfit(restart + 1, words[0][:LONGEST], words[1][:LONGEST]))
    return tuple(sorted(found))
