"""What follows from what the monitors saw: GPUs that idle, throttle or lag, and the whole job.

``summarize_job`` is the job in a few numbers, ``list_remarks`` what a person should look at.
Both are pure, and say nothing where nothing was measured.

The reasons are the bits of nvmlClocksEventReasons (NVIDIA NVML API reference, nvml.h). A cap of
power is how a GPU at full load works; heat, a brake of power and a slowdown by the hardware tell of
a fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median_high
from typing import Literal

from jobgen.model.units import Walltime
from jobgen.monitor.summary import GpuSummary, NodeSummary, compute_mean
from jobgen.named_tuple import NamedTuple

REASONS = {
    "sw_power_cap": "power cap",
    "hw_slowdown": "hardware slowdown",
    "hw_thermal": "heat",
    "sw_thermal": "heat, by the driver",
    "hw_power_brake": "power brake",
    "sync_boost": "sync boost",
    "app_clocks": "clocks set by the site",
    "display_clocks": "display clocks",
}
"""Words of the monitor that hold a clock down → words for people. Idle is none of them."""
HARMFUL = ("hw_thermal", "sw_thermal", "hw_power_brake", "hw_slowdown")
"""Those that say that something is wrong with the machine."""

IDLE_MOST = 0.5
"""Share of the samples under 5 per cent from which a GPU is said to be idle."""
THROTTLED_LEAST = 0.01
LAGGING = 0.8
"""A node or GPU whose utilisation is under this part of the median lags."""
SLOW_CLOCK = 0.9
BUSY = 20.0
"""Per cent: where the median is lower, nothing is said about who lags."""
FULL = 0.95
SILENT = 3.5
"""Samples of a node without one of its GPU, from which that GPU is said to be silent."""
FEWEST = 3
"""Samples from which a share says something."""


class Remark(NamedTuple):
    """Something to look at: what kind, which GPUs of which node, and the sentence."""

    kind: Literal["lost", "throttled", "idle", "slow", "memory"]
    node: str
    gpus: tuple[int, ...]
    text: str


class Overall(NamedTuple):
    """A job in a few numbers; None where nothing was measured."""

    seconds: float
    """From the first sample to the last, of the node that was watched longest."""
    gpus: int
    util: float | None
    """Mean utilisation of all GPUs, per cent."""
    idle: float | None
    """Share of all samples under 5 per cent, 0 to 1."""
    power: float | None
    """Watts of one GPU, the mean of all."""
    held: Mapping[str, float]
    """Reason → share of the samples in which it held a clock down, the mean of all GPUs."""
    throttled: float | None
    """The largest share, of any GPU, that a harmful reason held its clock down, 0 to 1."""
    cpu: float | None
    """Share of CPU time in use, per cent, the mean of all nodes."""
    network: float | None
    """Bytes a second of one node, in and out, the mean of all: sockets and RDMA together."""


def summarize_job(nodes: Sequence[NodeSummary]) -> Overall:
    """The whole job."""
    gpus = [gpu for node in nodes for gpu in node.gpus]
    reasons = {reason for gpu in gpus for reason in gpu.held if reason in REASONS}
    told = [gpu for gpu in gpus if gpu.util is not None]
    return Overall(
        seconds=max((node.last - node.first for node in nodes), default=0.0),
        gpus=len(gpus),
        util=compute_mean(gpu.util for gpu in gpus),
        idle=compute_mean(gpu.idle for gpu in gpus),
        power=compute_mean(gpu.power for gpu in gpus),
        held={r: sum(g.held.get(r, 0.0) for g in gpus) / len(gpus) for r in sorted(reasons)},
        throttled=max((compute_harm(gpu) for gpu in gpus), default=0.0) if told else None,
        cpu=compute_mean(node.cpu for node in nodes),
        network=compute_mean(map(_traffic, nodes)),
    )


def compute_harm(gpu: GpuSummary) -> float:
    """The largest share of the samples in which a harmful reason held the clock down, 0 to 1."""
    return max((gpu.held.get(reason, 0.0) for reason in HARMFUL), default=0.0)


def list_remarks(nodes: Sequence[NodeSummary]) -> tuple[Remark, ...]:
    """What a person should look at, the worst kind first."""
    return (
        *(r for node in nodes for r in _lost(node)),
        *(r for node in nodes for r in _throttled(node)),
        *(r for node in nodes for r in _idle(node)),
        *_slow_nodes(nodes),
        *_slow_gpus(nodes),
        *(r for node in nodes for r in _memory(node)),
    )


def _traffic(node: NodeSummary) -> float | None:
    known = [node.received, node.sent, node.rdma_received, node.rdma_sent]
    return sum(rate for rate in known if rate is not None) if known != [None] * 4 else None


def _lost(node: NodeSummary) -> Iterable[Remark]:
    """GPUs that stopped answering while their node went on."""
    if node.samples < FEWEST:
        return
    pause = (node.last - node.first) / (node.samples - 1)
    silent = [g for g in node.gpus if g.now and node.last - g.now.time > SILENT * pause]
    if silent:
        since = max(node.last - g.now.time for g in silent if g.now)
        text = f"no answer in the last {Walltime(int(since))} of monitoring"
        yield _remark("lost", node, silent, text)


def _throttled(node: NodeSummary) -> Iterable[Remark]:
    hot = [
        gpu for gpu in node.gpus if gpu.samples >= FEWEST and compute_harm(gpu) >= THROTTLED_LEAST
    ]
    if not hot:
        return
    worst = max(hot, key=compute_harm)
    reason = next(r for r in HARMFUL if worst.held.get(r, 0.0) == compute_harm(worst))
    degrees = f", up to {worst.temperature:.0f} C" if worst.temperature is not None else ""
    share = f"{100 * compute_harm(worst):.0f}% of the time{degrees}"
    yield _remark("throttled", node, hot, f"throttled ({REASONS[reason]}) for {share}")


def _idle(node: NodeSummary) -> Iterable[Remark]:
    idle = [gpu for gpu in node.gpus if _idles(gpu)]
    if idle:
        share = 100 * min(gpu.idle or 0.0 for gpu in idle)
        text = f"idle: utilisation under 5% for {share:.0f}% of the time"
        yield _remark("idle", node, idle, text)


def _idles(gpu: GpuSummary) -> bool:
    return gpu.samples >= FEWEST and gpu.idle is not None and gpu.idle > IDLE_MOST


def _slow_nodes(nodes: Sequence[NodeSummary]) -> Iterable[Remark]:
    """Those whose working GPUs work less than the others'; of two nodes, the lower."""
    working = [(n, compute_mean(g.util for g in n.gpus if not _idles(g))) for n in nodes]
    told = [(node, util) for node, util in working if util is not None and node.samples >= FEWEST]
    middle = median_high([util for _, util in told]) if len(told) > 1 else 0.0
    for node, util in told:
        if middle >= BUSY and util < LAGGING * middle:
            text = f"utilisation {util:.0f}%; the median of the nodes is {middle:.0f}%"
            yield Remark("slow", node.name, (), text)


def _slow_gpus(nodes: Sequence[NodeSummary]) -> Iterable[Remark]:
    """Those whose clock is far below the others': all ranks wait for the slowest."""
    clocks = [gpu.clock for node in nodes for gpu in node.gpus if gpu.clock is not None]
    middle = median_high(clocks) if len(clocks) > 1 else 0.0
    for node in nodes:
        told = [g for g in node.gpus if g.clock is not None and g.samples >= FEWEST]
        slow = [g for g in told if (g.clock or 0.0) < SLOW_CLOCK * middle]
        if slow:
            least = min(g.clock or 0.0 for g in slow)
            text = f"clock {least:.0f} MHz; the median of the GPUs is {middle:.0f} MHz"
            yield _remark("slow", node, slow, text)


def _memory(node: NodeSummary) -> Iterable[Remark]:
    if node.memory and node.memory_total and node.memory >= FULL * node.memory_total:
        share = 100 * node.memory / node.memory_total
        yield Remark("memory", node.name, (), f"{share:.0f}% of the host's memory was in use")


def _remark(
    kind: Literal["lost", "throttled", "idle", "slow"],
    node: NodeSummary,
    gpus: Sequence[GpuSummary],
    text: str,
) -> Remark:
    return Remark(kind, node.name, tuple(gpu.number for gpu in gpus), text)
