"""The run's event record: what happened to its ranks, nodes and job, one line an event.

A line is ``v=1 time=SECONDS kind=KIND key=value…``; in values ``%XX`` stands for a blank, a line
break or a percent sign. Each rank, node and job appends to a file of its own,
``state/TASK/events/RESTART.NODE.WRITER``; readers merge them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from jobgen.named_tuple import NamedTuple

_VERSION = "1"
_ESCAPED = re.compile(r"%([0-9A-Fa-f]{2})")


class Event(NamedTuple):
    """One event; ``fields`` are its other keys and values, in the order of the line."""

    time: float
    """Seconds since 1970, by the clock of the node that wrote it."""
    kind: str
    fields: Mapping[str, str]

    @property
    def node(self) -> str:
        """The node that it happened on, or an empty string."""
        return self.fields.get("node", "")

    @property
    def rank(self) -> int | None:
        """The rank that it happened to; None for a node or the job."""
        return self.read_number("rank")

    def read_number(self, key: str) -> int | None:
        """The whole number under this key; None if there is none."""
        text = self.fields.get(key, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


class RankFailure(NamedTuple):
    """What failed, as the batch shell recorded it; of one start the first comes first."""

    start: int
    """The first start of the job is 1."""
    node: str
    rank: int | None
    """None if the node failed before its ranks started, as in a line of setup."""
    code: int
    """Its exit code; 128 and the signal's number if it was killed."""
    signal: int
    """The signal that killed it, or 0."""
    task: str = ""
    """The element of a job array."""


class StepRecord(NamedTuple):
    """A step of a job that has begun, as the batch shell recorded it."""

    start: int
    """The first start of the job is 1."""
    name: str
    begun: float
    """Seconds since 1970, by the clock of the first node."""
    ended: float | None = None
    code: int | None = None
    """Its exit code; 98 if the pre-timeout signal stopped it. None if no end was recorded."""
    task: str = ""
    """The element of a job array."""
    stopped: bool = False
    """Whether a group was stopped because another one had ended; its code is 0 then."""


class CodeRecord(NamedTuple):
    """The code of a job that stays on the cluster, as the batch shell found it."""

    start: int
    """The first start of the job is 1."""
    at: str
    """The directory."""
    commit: str
    """Empty outside git, or without git."""
    changed: int | None = None
    """Files that differ from the commit; None if git could not tell."""
    diff: str = ""
    """SHA-256 of what differs."""
    task: str = ""
    """The element of a job array."""


class Silence(NamedTuple):
    """A rank that ended well, and nothing of the others since."""

    start: int
    node: str
    rank: int
    seconds: int
    """How long no rank had written anything."""
    task: str = ""
    """The element of a job array."""


def list_failures(start: int, text: str, task: str = "") -> list[RankFailure]:
    """What failed in one start, by the lines of the batch shell's event file."""
    return [
        RankFailure(start, event.node, event.rank, code, event.read_number("signal") or 0, task)
        for event in read_events(text)
        if event.kind == "failed" and (code := event.read_number("code")) is not None
    ]


def list_step_runs(start: int, text: str, task: str = "") -> list[StepRecord]:
    """The steps that have begun in one start, in their order."""
    runs: dict[str, StepRecord] = {}
    for event in read_events(text):
        name = event.fields.get("step", "")
        if event.kind != "step" or not name:
            continue
        begun = runs.get(name) or StepRecord(start, name, event.time, task=task)
        code = event.read_number("code")
        if code is not None:
            stopped = "stopped" in event.fields
            begun = begun._replace(ended=event.time, code=code, stopped=stopped)
        runs[name] = begun
    return list(runs.values())


def list_codes(start: int, text: str, task: str = "") -> list[CodeRecord]:
    """The code that one start ran, if it stays on the cluster."""
    return [
        CodeRecord(
            start,
            event.fields.get("at", ""),
            event.fields.get("commit", ""),
            event.read_number("changed"),
            event.fields.get("diff", ""),
            task,
        )
        for event in read_events(text)
        if event.kind == "code"
    ]


def find_decisive_step(events: Sequence[Event]) -> str:
    """The step or group whose rank failed first, or that failed, or began last.

    Empty if the job has one program.
    """
    first = next((e for e in events if e.kind == "failed"), None)
    if first is not None and first.fields.get("step"):
        return first.fields["step"]
    codes = [event for event in events if event.kind == "step" and event.read_number("code")]
    if codes:
        return codes[0].fields.get("step", "")
    starts = [event for event in events if event.kind == "step" and "code" not in event.fields]
    newest = max(starts, key=lambda event: event.time, default=None)
    return newest.fields.get("step", "") if newest else ""


def have_succeeded(events: Sequence[Event]) -> bool:
    """Whether every program that has begun ended with 0, or was stopped because others had.

    Of a job with one program, whether all its ranks did.
    """
    steps = {e.fields.get("step", ""): e for e in events if e.kind == "step"}
    if steps:
        return all(event.read_number("code") == 0 for event in steps.values())
    ends = {event.rank: event for event in events if event.kind == "exit"}
    world = max((event.read_number("world") or 0 for event in events), default=0)
    well = [rank for rank, end in ends.items() if rank is not None and end.read_number("code") == 0]
    return 0 < world <= len(well) == len(ends)


def list_silences(start: int, text: str, task: str = "") -> list[Silence]:
    """The ranks whose end the others seem not to have noticed, in one start."""
    return [
        Silence(start, event.node, event.rank, event.read_number("seconds") or 0, task)
        for event in read_events(text)
        if event.kind == "silent" and event.rank is not None
    ]


def read_events(text: str) -> tuple[Event, ...]:
    """The events of these lines, in their order. Lines of a later version, and damaged ones, are
    left out.

    >>> read_events("v=1 time=1795268400.5 kind=exit node=n2 rank=1 code=7 why=no%20room")[0].fields
    {'node': 'n2', 'rank': '1', 'code': '7', 'why': 'no room'}
    """
    events = (_read_event(line) for line in text.split("\n"))
    return tuple(event for event in events if event is not None)


def _read_event(line: str) -> Event | None:
    fields = {}
    for word in line.split(" "):
        key, equals, value = word.partition("=")
        if not equals:
            return None
        fields[key] = _ESCAPED.sub(lambda code: chr(int(code[1], 16)), value)
    time = re.fullmatch(r"\d{1,11}(\.\d{1,9})?", fields.pop("time", ""), re.ASCII)
    kind = fields.pop("kind", "")
    if fields.pop("v", "") != _VERSION or time is None or not kind:
        return None
    return Event(float(time[0]), kind, fields)
