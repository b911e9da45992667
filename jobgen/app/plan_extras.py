"""What ``plan`` shows beside the plan: money, the last run, the difference to it."""

from __future__ import annotations

from jobgen.app.prepare import PreparedJob
from jobgen.app.rendered_files import Difference, diff_texts
from jobgen.app.world import World
from jobgen.errors import Missing
from jobgen.model.record import RunRecord
from jobgen.named_tuple import NamedTuple


class Cost(NamedTuple):
    """The most that all starts can use: GPU-hours, and money where the profile has a price."""

    gpu_hours: float
    amount: float | None = None
    currency: str = ""
    starts: int = 1


class NodeCpus(NamedTuple):
    """CPUs as people count them: Slurm counts those of a task, which may start many ranks."""

    rank: int = 0
    node: int = 0
    """0 where neither the job nor the profile names a number."""


def count_cpus(ready: PreparedJob) -> NodeCpus:
    """The CPUs of one rank, and those of all ranks of a node."""
    shape, there = ready.plan.shape, ready.profile.value.nodes.cpus
    node = there or 0 if shape.whole_nodes else 0
    if shape.cpus_per_task is not None:
        node = shape.cpus_per_task * shape.tasks_per_node
    return NodeCpus(node // shape.ranks_per_node, node) if node else NodeCpus()


class Planned(NamedTuple):
    """A plan with what surrounds it."""

    ready: PreparedJob
    cost: Cost
    last: RunRecord | None
    """The newest run of that name on that cluster."""
    differences: tuple[Difference, ...] | None = None
    """Against the run that was asked for; None where nobody asked."""
    against: str = ""


def plan(world: World, ready: PreparedJob, *, diff: str | None = None, context: int = 3) -> Planned:
    """The plan, its cost, and with ``diff`` (an id, or ``last``) what changed since that run.

    Raises Missing where there is no such run.
    """
    last = world.ledger.find_last(ready.plan.name, cluster=ready.plan.cluster)
    cost = compute_cost(ready)
    if diff is None:
        return Planned(ready, cost, last)
    record = last if diff == "last" else world.ledger.get(diff)
    if record is None:
        raise Missing(
            f"no run of '{ready.plan.name}' on {ready.plan.cluster} to compare with",
            hint="submit the job first; list all runs: jobgen ls -a",
        )
    found = _differences(world.ledger.get_bundle(record.token), ready, context)
    return Planned(ready, cost, last, found, record.alias)


def compute_cost(ready: PreparedJob) -> Cost:
    """What the job can use, and what that costs where the profile has a price."""
    hours, starts = ready.plan.gpu_hours, ready.plan.starts
    price = ready.profile.value.price
    if price and hours:
        return Cost(hours, hours * price.gpu_hour, price.currency, starts)
    return Cost(hours, starts=starts)


def _differences(
    before: dict[str, bytes], ready: PreparedJob, context: int
) -> tuple[Difference, ...]:
    now = {f.path: f.content for f in ready.bundle.files}
    found = []
    for name in sorted({*before, *now}):
        old, new = before.get(name, b""), now.get(name, b"")
        if old != new:
            what = "different" if name in now else "gone"
            what = what if name in before else "new"
            found.append(Difference(name, what, diff_texts(name, old, new, context=context)))
    return tuple(found)
