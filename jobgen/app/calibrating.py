"""Memory that finished runs measured themselves, beside what was expected of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from jobgen.app.prepare import Ready
from jobgen.app.world import World
from jobgen.resolve.look import Look
from jobgen.submission.report import ALLOCATED, RESERVED, SPEED

if TYPE_CHECKING:
    from jobgen.model.record import RunRecord
    from jobgen.model.train import Train
    from jobgen.strategy.choice.setups import Ask

EXPECTED = "expected"
"""Where a run's record keeps what was expected, under the keys of a report."""
NEWEST = 3
"""Runs that are shown."""
METRICS = {ALLOCATED: "allocated", RESERVED: "reserved"}


class Measured(NamedTuple):
    """One run's own peak, and what had been expected of it. Bytes."""

    alias: str
    metric: str
    """``allocated`` or ``reserved``, as torch counts."""
    bytes: float
    expected: float
    speed: float | None = None
    """Tokens for each second, of all ranks, where it was reported."""

    @property
    def factor(self) -> float:
        """What the estimate would have to be multiplied by."""
        return self.bytes / self.expected


def asked(ready: Ready, train: Train) -> tuple[Ask | None, str]:
    """What the planner is asked of this job with this ``train``; or None, and what is missing."""
    from jobgen.resolve import planning

    look = Look(ready.job, ready.profile, ready.facts)
    return planning.asked(look, ready.plan.shape, ready.plan.launcher.value, train)


def expected(ready: Ready) -> dict[str, Any]:
    """For the record of a run: its expected peak, under the key ``EXPECTED``; nothing where the
    planner does not know the job."""
    train = ready.job.value.train
    if train is None:
        return {}
    from jobgen.resolve import planning

    size, launcher = ready.plan.shape, ready.plan.launcher.value
    chosen = planning.decided(Look(ready.job, ready.profile, ready.facts), size, launcher)
    ask, _ = asked(ready, chosen.train) if chosen else (None, "")
    if ask is None:
        return {}
    from jobgen.strategy.choice.advise import option
    from jobgen.strategy.choice.ladder import Rung

    memory = option(Rung(0, "", ask.train), ask, speed=False).memory
    told = {ALLOCATED: memory.of("allocated"), RESERVED: memory.of("reserved")}
    return {EXPECTED: {key: round(size) for key, size in told.items()}}


def measured(world: World, ready: Ready) -> tuple[Measured, ...]:
    """The newest runs of this name on this cluster that reported their peak, the newest first."""
    plan = ready.plan
    runs = world.ledger.runs(cluster=plan.cluster, name=plan.name, limit=50)
    found = (one for run in runs if run.ended and (one := _measured(run)) is not None)
    return tuple(one for one, _ in zip(found, range(NEWEST), strict=False))


def _measured(run: RunRecord) -> Measured | None:
    told = run.shape.get(EXPECTED)
    if not isinstance(told, dict):
        return None
    for key, metric in METRICS.items():
        size, before = run.report.get(key), told.get(key)
        if size and before and size > 0 and before > 0:
            return Measured(run.alias, metric, size, before, run.report.get(SPEED))
    return None
