"""What a failed job left behind: how its ranks ended, and what its logs hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jobgen.diagnose.log_lines import LogText
from jobgen.model.events import Event
from jobgen.named_tuple import NamedTuple


class RankEnd(NamedTuple):
    """The end of one rank with a code other than 0; or of a node, before its ranks started."""

    time: float
    node: str
    rank: int | None
    code: int
    signal: int = 0
    why: str = ""
    """Why the rank or the node ended before the program started."""


class ProgramStart(NamedTuple):
    """The start of one rank's program."""

    time: float
    node: str
    rank: int


class Evidence(NamedTuple):
    """What is known of one start of a job; of logs that jobgen did not write, those alone."""

    state: str = ""
    """The job's state, as Slurm names it; empty if unknown."""
    ends: tuple[RankEnd, ...] = ()
    logs: tuple[LogText, ...] = ()
    start: int = 1
    """The first start is 1."""
    task: str = ""
    ended: float = 0.0
    """When the job ended; 0 if unknown."""
    finished: tuple[RankEnd, ...] = ()
    """The ranks that ended with code 0."""
    world: int = 0
    """The number of ranks; 0 if unknown."""
    dumps: tuple[tuple[int, bytes], ...] = ()
    """Dumps of PyTorch's flight recorder: the rank, and the file."""
    starts: tuple[ProgramStart, ...] = ()
    """The first start of each rank, in order of time."""
    tasks: int = 0
    """The tasks of the job by the scheduler; 0 if unknown."""
    succeeded: bool = False
    """Whether every program ended well: what failed came after."""
    unused: str = ""
    """The nodes of the only step and those of the job, if the scheduler shows that they differ."""
    silent: float = 0.0
    """Seconds before the end of the job in which no rank wrote anything; 0 if unknown."""


def read_record(events: Sequence[Event]) -> Evidence:
    """The evidence of an event record, without any log."""
    return Evidence(
        ends=_list_ends(events),
        ended=max((event.time for event in events), default=0.0),
        finished=_list_finished(events),
        world=_count_ranks(events),
        starts=_list_starts(events),
    )


def _list_ends(events: Iterable[Event]) -> tuple[RankEnd, ...]:
    """The ends of ranks and nodes that failed, in order of time. Of ranks that a launcher started
    again, those since their last start."""
    return tuple(end for end in _list_all(events) if end.code)


def _list_finished(events: Iterable[Event]) -> tuple[RankEnd, ...]:
    """The ranks that ended with code 0 since their last start, in order of time."""
    return tuple(end for end in _list_all(events) if not end.code and end.rank is not None)


def _list_starts(events: Iterable[Event]) -> tuple[ProgramStart, ...]:
    """The first start of each rank, in order of time."""
    starts: dict[int, ProgramStart] = {}
    for event in sorted(events, key=lambda event: event.time):
        if event.kind == "start" and event.rank is not None:
            starts.setdefault(event.rank, ProgramStart(event.time, event.node, event.rank))
    return tuple(starts.values())


def _count_ranks(events: Iterable[Event]) -> int:
    """The number of ranks that the job was to have; 0 if none has started."""
    return max((event.read_number("world") or 0 for event in events), default=0)


def _list_all(events: Iterable[Event]) -> list[RankEnd]:
    ends: dict[tuple[str, int | None], RankEnd] = {}
    starts: dict[tuple[str, int | None], int] = {}
    for event in sorted(events, key=lambda event: event.time):
        who = (event.node, event.rank)
        if event.kind == "start":
            starts[who] = starts.get(who, 0) + 1
            if starts[who] > 1:
                ends.clear()
        code = event.read_number("code")
        if event.kind == "exit" and code is not None:
            signal, why = event.read_number("signal") or 0, event.fields.get("why", "")
            end = RankEnd(event.time, *who, code, signal, why)
            if event.rank is not None or who not in ends:
                ends[who] = end  # of a node the first counts: its other ranks only waited
    return sorted(ends.values(), key=lambda end: end.time)
