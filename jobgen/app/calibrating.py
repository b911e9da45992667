"""What finished runs have measured: their own memory, and benches the links."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobgen.app.calibration import Calibration, read_calibration
from jobgen.app.prepare import PreparedJob
from jobgen.app.run_comparison import RunComparison, compare_run
from jobgen.app.world import World
from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobgen.model.record import RunRecord
    from jobgen.strategy.choice.setups import Ask
    from jobgen.strategy.estimate import ClusterHardware

NEWEST = 3
"""Runs that are shown."""


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


class ClusterMeasurements(NamedTuple):
    """What was measured on the cluster of a job."""

    calibration: Calibration
    """What ``jobgen calibrate`` keeps of its GPUs."""
    runs: tuple[RunComparison, ...] = ()
    """Runs of this job that told their own peak."""
    links: tuple[Linked, ...] = ()
    """Benches that measured this machine's links."""

    @property
    def used_links(self) -> tuple[Linked, ...]:
        """The benches that correct anything: times of own steps include the links already."""
        return () if self.calibration.step else self.links

    def calibrate(self, ask: Ask) -> Ask:
        """The question, to be answered as these measurements correct it."""
        found = self.calibration
        return ask._replace(
            factor=found.memory or 1.0,
            slower=found.step or 1.0,
            machine=calibrate_links(ask.machine, self.used_links),
        )


def find_cluster_measurements(world: World, ready: PreparedJob) -> ClusterMeasurements:
    """Everything that was measured on the job's cluster."""
    request = ready.planner_request
    gpu = request.ask.machine.gpu if request and request.ask else ""
    calibration = read_calibration(world, ready.plan.cluster, gpu)
    links = find_benches(world, ready) if ready.job.value.train else ()
    return ClusterMeasurements(calibration, list_measured(world, ready), links)


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


def list_measured(world: World, ready: PreparedJob) -> tuple[RunComparison, ...]:
    """The newest runs of this name on this cluster that reported their peak, the newest first."""
    plan = ready.plan
    runs = world.ledger.list_runs(cluster=plan.cluster, name=plan.name, limit=50)
    compared = (compare_run(run) for run in runs if run.ended)
    known = (one for one in compared if one.choose_memory(force=True) is not None)
    return tuple(one for one, _ in zip(known, range(NEWEST), strict=False))
