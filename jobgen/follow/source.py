"""Whose output a log file holds, read from its name alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Stream = Literal["out", "err", "job"]

_RANK = re.compile(r"(?P<node>[A-Za-z0-9._-]{1,255})\.(?P<rank>\d{1,7})\.(?P<stream>out|err)", re.A)
_JOB = re.compile(r"job-\d{1,18}(?:_(?P<index>\d{1,9})(?:\+(?P<offset>\d{1,9}))?)?\.out", re.A)
_PLACE = re.compile(
    r"(?:.*/)?(?P<task>\d{1,9})/(?P<restart>\d{1,6})/(?:(?P<step>[A-Za-z][\w-]{0,31})/)?", re.A
)


@dataclass(frozen=True, slots=True)
class LogSource:
    """One stream of one rank; or, with ``rank`` None, the job's own log."""

    node: str
    rank: int | None
    stream: Stream
    task: str = "0"
    """The array task; ``0`` where the job is no array."""
    restart: int = 0
    step: str = ""
    """The step whose program wrote it; empty where the job has one program."""

    @property
    def order(self) -> tuple[int, int, str, int]:
        """The job's own log first, then ranks as they count, output before errors."""
        return (
            self.restart,
            -1 if self.rank is None else self.rank,
            self.node,
            "jobouterr".index(self.stream),
        )


def parse_source(path: str) -> LogSource | None:
    """The source of ``…/<task>/<restart>/[<step>/]<node>.<rank>.out|err`` or ``job-<id>.out``.

    >>> parse_source("logs/0/1/n01.12.err")
    LogSource(node='n01', rank=12, stream='err', task='0', restart=1, step='')
    >>> parse_source("logs/0/1/eval/n01.12.err").step
    'eval'
    >>> parse_source("logs/job-811.out").stream
    'job'
    >>> parse_source("logs/job-811_3+1000.out").task  # of the array that begins with element 1000
    '1003'
    """
    folder, slash, name = path.rpartition("/")
    if found := _JOB.fullmatch(name):
        element = int(found["index"] or 0) + int(found["offset"] or 0)
        return LogSource("", None, "job", str(element))
    found = _RANK.fullmatch(name)
    if found is None:
        return None
    stream: Stream = "err" if found["stream"] == "err" else "out"
    place = _PLACE.fullmatch(folder + slash)
    task, restart = (place["task"], int(place["restart"])) if place else ("0", 0)
    step = (place["step"] or "") if place else ""
    return LogSource(found["node"], int(found["rank"]), stream, task, restart, step)
