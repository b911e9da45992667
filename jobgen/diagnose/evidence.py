"""What a failed job left behind: how its ranks ended, and the ends of their logs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
    """Why rank.sh ended before the program started."""


class Evidence(NamedTuple):
    """What is known of one start of a job."""

    state: str
    """The job's state, as Slurm names it."""
    ends: tuple[RankEnd, ...] = ()
    tails: Mapping[str, str] = {}
    """The end of each log file, by its path below ``logs/``."""
    start: int = 1
    """The first start is 1."""
    task: str = ""
    ended: float = 0.0
    """When the job ended; 0 if unknown."""


def list_ends(events: Iterable[Event]) -> tuple[RankEnd, ...]:
    """The ends of ranks and nodes that failed, in order of time. Of ranks that a launcher started
    again, those since their last start."""
    ends: dict[tuple[str, int | None], RankEnd] = {}
    starts: dict[tuple[str, int | None], int] = {}
    for event in sorted(events, key=lambda event: event.time):
        who = (event.node, event.rank)
        if event.kind == "start":
            starts[who] = starts.get(who, 0) + 1
            if starts[who] > 1:
                ends.clear()
        code = event.read_number("code")
        if event.kind == "exit" and code:
            signal, why = event.read_number("signal") or 0, event.fields.get("why", "")
            ends[who] = RankEnd(event.time, *who, code, signal, why)
    return tuple(sorted(ends.values(), key=lambda end: end.time))
