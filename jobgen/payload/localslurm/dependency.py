"""``--dependency``: what a job waits for, and whether that has come."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from .records import Job

_KINDS = ("after", "afterok", "afterany", "afternotok", "aftercorr", "singleton")


class Met(Enum):
    """Whether a dependency is fulfilled."""

    YES = "yes"
    NOT_YET = "not yet"
    NEVER = "never"


class Need(NamedTuple):
    """One condition: how the job (0 for singleton) must stand, and for how many minutes."""

    kind: str
    job: int = 0
    minutes: int = 0


def read(text: str) -> tuple[list[Need], bool]:
    """The conditions, and whether one of them is enough. ValueError where it cannot be read."""
    if not text:
        return [], False
    anyone = "?" in text
    if anyone and "," in text:
        raise ValueError(text)
    return [need for part in re.split(r"[,?]", text) for need in _needs(part)], anyone


def _needs(part: str) -> list[Need]:
    kind, *jobs = part.split(":")
    if kind not in _KINDS or bool(jobs) == (kind == "singleton"):
        raise ValueError(part)
    if kind == "singleton":
        return [Need(kind)]
    needs = []
    for job in jobs:
        match = re.fullmatch(r"(\d{1,18})(?:\+(\d{1,6}))?", job)
        if not match:
            raise ValueError(part)
        needs.append(Need(kind, int(match.group(1)), int(match.group(2) or 0)))
    return needs


def met(job: Job, find: Callable[[int], Job | None], others: Sequence[Job], now: float) -> Met:
    """Whether this job may start as far as others are concerned."""
    needs, anyone = read(job.request.dependency)
    answers = [
        _singleton(job, others) if n.kind == "singleton" else _one(n, find(n.job), now)
        for n in needs
    ]
    wanted, hopeless = (any, all) if anyone else (all, any)
    if not needs or wanted(a is Met.YES for a in answers):
        return Met.YES
    return Met.NEVER if hopeless(a is Met.NEVER for a in answers) else Met.NOT_YET


def _singleton(job: Job, others: Sequence[Job]) -> Met:
    earlier = (
        o for o in others if o.request.name == job.request.name and o.request.id < job.request.id
    )
    return Met.NOT_YET if any(not o.status.ended for o in earlier) else Met.YES


def _one(need: Need, other: Job | None, now: float) -> Met:
    if other is None:  # forgotten long ago: Slurm takes that as fulfilled
        return Met.YES
    status = other.status
    if need.kind == "after":
        started = bool(status.start) or status.ended
        return Met.YES if started and now >= status.start + 60 * need.minutes else Met.NOT_YET
    if not status.ended:
        return Met.NOT_YET
    good = status.state == "COMPLETED"
    fulfilled = {"afterany": True, "afternotok": not good}.get(need.kind, good)
    return Met.YES if fulfilled else Met.NEVER
