"""Whose turn it is: first come, first served, on whole nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from .dependency import Met, met
from .records import Job

_HOLDING = frozenset(("RUNNING", "COMPLETING"))
_IN_LINE = frozenset(("None", "Resources", "Priority"))


class Turn(NamedTuple):
    """The nodes a job gets now, or Slurm's word for why it waits."""

    reason: str = "None"
    nodes: Sequence[int] = ()


def turn(
    job: Job,
    active: Sequence[Job],
    nodes: int,
    now: float,
    find: Callable[[int], Job | None],
) -> Turn:
    """Whether this job may start. ``active`` are the jobs of this machine that have not ended."""
    request, status = job.request, job.status
    if status.reason == "JobHeldUser":
        return Turn("JobHeldUser")
    state = met(job, find, active, now)
    if state is not Met.YES:
        return Turn("DependencyNeverSatisfied" if state is Met.NEVER else "Dependency")
    if status.eligible > now:
        return Turn("BeginTime")
    if any(_ahead(other, job) for other in active):
        return Turn("Priority")
    taken = {n for other in active if other.status.state in _HOLDING for n in other.status.nodes}
    free = [n for n in range(1, nodes + 1) if n not in taken]
    if len(free) < request.nodes:
        return Turn("Resources")
    return Turn(nodes=free[: request.nodes])


def _ahead(other: Job, job: Job) -> bool:
    waits = other.status.state == "PENDING" and other.status.reason in _IN_LINE
    return waits and other.request.id < job.request.id
