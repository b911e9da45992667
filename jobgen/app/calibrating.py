"""What finished runs have measured: their own memory, and benches the links."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobgen.app.prepare import PreparedJob
from jobgen.app.world import World
from jobgen.named_tuple import NamedTuple
from jobgen.submission.program_report import ALLOCATED, EXPECTED, RESERVED, SPEED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobgen.model.record import RunRecord
    from jobgen.strategy.estimate import ClusterHardware

NEWEST = 3
"""Runs that are shown."""
METRICS = {ALLOCATED: "allocated", RESERVED: "reserved"}


class Measured(NamedTuple):
    """The peak memory that one run measured, and what was expected before it. Bytes."""

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


class Linked(NamedTuple):
    """A bench of all-reduces on this machine. Bytes per second and seconds."""

    alias: str
    cluster: str
    nodes: int
    ranks: int
    busbw: float
    alpha: float

    @property
    def text(self) -> str:
        """``21.3 GB/s bus bandwidth over 2 nodes, measured by bench allreduce on NAME (ID)``."""
        nodes = f"{self.nodes} nodes" if self.nodes > 1 else "1 node"
        rate = f"{self.busbw / 1e9:.3g} GB/s bus bandwidth over {nodes}"
        return f"{rate}, measured by bench allreduce on {self.cluster} ({self.alias})"


def find_benches(world: World, ready: PreparedJob) -> tuple[Linked, ...]:
    """The newest benches of these links, over NCCL: one between nodes and one inside a node."""
    from jobgen.app.benching.allreduce import digest_machine
    from jobgen.bench.bench_job import NAME

    wanted = digest_machine(ready.profile.value)
    runs = world.ledger.list_runs(cluster=ready.plan.cluster, name=NAME, limit=50)
    known = [one for run in runs if (one := _linked(run, wanted)) is not None]
    several = next((one for one in known if one.nodes > 1), None)
    alone = next((one for one in known if one.nodes == 1), None)
    return tuple(one for one in (several, alone) if one is not None)


def _linked(run: RunRecord, digest: str) -> Linked | None:
    told = run.shape.get("bench")
    told = told if isinstance(told, dict) else {}
    found = told.get("measured")
    if not isinstance(found, dict) or told.get("profile") != digest:
        return None
    # gloo says nothing of what NCCL will reach
    if found.get("backend") != "nccl" or not found.get("busbw") or found.get("ranks", 0) < 2:
        return None
    alpha = float(found.get("alpha") or 0.0)
    size = int(told["nodes"]), int(found["ranks"])
    return Linked(run.alias, run.site.cluster, *size, float(found["busbw"]), alpha)


def calibrate_links(machine: ClusterHardware, found: Sequence[Linked]) -> ClusterHardware:
    """The machine with its links as these benches have measured them."""
    from jobgen.strategy.estimate import MeasuredLinks as Links
    from jobgen.strategy.speed.collectives import RankGroup
    from jobgen.strategy.speed.collectives import fit_links as of

    known = Links()
    for one in found:
        links = of(one.busbw, one.alpha, RankGroup(one.ranks, max(one.ranks // one.nodes, 1)))
        source = "; ".join(text for text in (known.source, one.text) if text)
        known = Links(
            links.link or known.link,
            links.network or known.network,
            links.hop or known.hop,
            source,
        )
    return machine._replace(measured=known) if found else machine


def list_measured(world: World, ready: PreparedJob) -> tuple[Measured, ...]:
    """The newest runs of this name on this cluster that reported their peak, the newest first."""
    plan = ready.plan
    runs = world.ledger.list_runs(cluster=plan.cluster, name=plan.name, limit=50)
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
