"""What is said of a setup: its memory by component, and its step by what takes the time."""

from __future__ import annotations

from typing import Literal

from jobgen.named_tuple import NamedTuple

MIB = 1 << 20
GIB = 1 << 30
Moment = Literal["forward", "backward", "step", "load"]
Metric = Literal["allocated", "reserved", "nvidia-smi"]
INTERVAL = (0.75, 1.33)
"""Measured / estimated, between which nine in ten published runs lie, those of a source that had no
part in it, too (``benchmarks/planner_accuracy.py``: ``interval``). The only numbers of the planner
that come from its errors."""
FRAGMENTED = 1.03
"""What the allocator reserves at the least, as a multiple of what is allocated: of the 3 to 10 %
that logs show (``memory.outside``), what is left when it has freed its cache, which it does before
it gives up (torch, c10/cuda/CUDACachingAllocator.cpp, ``release_cached_blocks``)."""
OWN_RUNS = "measured / estimated, in your runs"
"""What ``--calibrated`` multiplies estimates by."""
Verdict = Literal["fits", "tight", "no", "unknown"]


class Component(NamedTuple):
    """One part of the memory of a GPU at the peak."""

    name: str
    """params, grads, master, moments, gathered, buckets, activations, logits, temporary, context or
    cache."""
    bytes: float
    formula: str
    """The formula with its inputs, as ``--why`` prints it."""
    source: str
    shrinks: bool
    """Whether more GPUs make it smaller."""
    label: str = ""
    """What it is in this setup, in PyTorch's words; empty where ``name`` says it."""

    @property
    def title(self) -> str:
        """How screens name it."""
        return self.label or self.name


_LEFT_OUT: dict[Metric, tuple[str, ...]] = {
    "allocated": ("cache", "context"),
    "reserved": ("context",),
    "nvidia-smi": (),
}
"""Metric → components that are no part of it."""


class GpuMemory(NamedTuple):
    """Of the GPU that holds most. Bytes."""

    components: tuple[Component, ...]
    """When torch has allocated most, in the order in which they are drawn. All sum to
    ``nvidia_smi``; those that are neither cache nor context are what is allocated."""
    moment: Moment
    """When torch has allocated most."""
    low: float
    """The interval of ``nvidia_smi``."""
    high: float
    host: float = 0.0
    """Memory of a node for what is offloaded to it."""
    pinned: float = 0.0
    """Of it, memory that may not be swapped."""
    nvme: float = 0.0
    """Disk of a node."""
    checkpoint: float = 0.0
    """A whole checkpoint: parameters and optimizer."""
    doubts: tuple[str, ...] = ()
    """What is not modelled here and could matter."""
    pipeline_rank: int | None = None
    """The pipeline rank of that GPU; None without a pipeline."""

    def get_peak(self, metric: Metric) -> float:
        """The largest value of this metric in the whole run: each may have its peak at another
        moment (torch.cuda.max_memory_allocated and max_memory_reserved). Bytes.
        """
        left_out = _LEFT_OUT[metric]
        return sum(c.bytes for c in self.components if c.name not in left_out)

    def get_interval(self, metric: Metric) -> tuple[float, float]:
        """The values of this metric between which nine in ten published runs lie. Bytes."""
        if metric == "nvidia-smi":
            return self.low, self.high
        low, high = INTERVAL
        return self.get_peak(metric) * low, self.get_peak(metric) * high

    @property
    def needed(self) -> float:
        """What must be there: less is out of memory. What is allocated, what the allocator cannot
        give back, CUDA and NCCL."""
        context = sum(part.bytes for part in self.components if part.name == "context")
        return FRAGMENTED * self.get_peak("allocated") + context

    def list_largest(self) -> list[Component]:
        """The components that must be there, the largest first: cache is given back."""
        held = [part for part in self.components if part.name != "cache" and part.bytes > 0]
        return sorted(held, key=lambda part: -part.bytes)

    @property
    def needed_interval(self) -> tuple[float, float]:
        """What is needed at least and at most, by the interval. Bytes."""
        low, high = INTERVAL
        return low * self.needed, high * self.needed

    @property
    def ample(self) -> float:
        """What is needed at most, by the interval. Bytes."""
        return self.needed_interval[1]

    @property
    def nvidia_smi(self) -> float:
        """Everything."""
        return self.get_peak("nvidia-smi")

    def scale(self, factor: float) -> GpuMemory:
        """This memory with each component so many times as large: calibrated by measured runs."""
        if factor == 1:
            return self
        parts = tuple(part._replace(bytes=part.bytes * factor) for part in self.components)
        return self._replace(components=parts, low=self.low * factor, high=self.high * factor)

    def judge(self, limit: float) -> Verdict:
        """Whether it goes into this many bytes, which CUDA reports as the total: fits where even
        the upper end of what is needed does, tight where only the estimate does."""
        if self.needed > limit:
            return "no"
        return "fits" if self.ample <= limit else "tight"

    def describe_room(self, limit: float) -> str:
        """``27 % free``; where that is tight, what may be needed."""
        free = f"{1 - self.needed / limit:.0%} free".replace("%", " %")
        if self.ample > limit:
            return f"{free}, but up to {self.ample / GIB:.1f} GiB may be needed"
        return free


Link = Literal["node", "network"]


class Volume(NamedTuple):
    """What one rank sends in one step over one kind of link. Bytes and seconds."""

    what: str
    """all-gather, reduce-scatter, all-reduce, send or all-to-all, and of what."""
    link: Link
    bytes: float
    seconds: float
    exposed: float
    """Seconds in which nothing is computed beside it."""


WorkUnit = Literal["tokens", "samples"]


class StepTime(NamedTuple):
    """Seconds of one step of the optimizer."""

    compute: float
    volumes: tuple[Volume, ...]
    bubble: float
    """Waiting for other stages of the pipeline."""
    update: float
    """The optimizer's own work."""
    offload: float
    """Moving states over PCIe or to the disk, as far as it is not hidden."""
    work: float
    """Tokens of a step, or its samples, over all ranks."""
    ranks: int
    flops: float
    """Model FLOPs of a step on one rank: without what is computed again."""
    efficiency: float
    """Part of the peak that computing alone is taken to reach."""
    why: tuple[str, ...] = ()
    """Formulas with inputs and sources, for ``--why``."""
    unit: WorkUnit = "tokens"
    """What ``work`` counts."""

    @property
    def seconds(self) -> float:
        """The whole step: computing, sending that is not hidden, waiting, optimizer, offload."""
        return self.compute + self.exposed + self.bubble + self.update + self.offload

    @property
    def exposed(self) -> float:
        """Seconds in which it only sends."""
        return sum(volume.exposed for volume in self.volumes)

    def get_exposed(self, link: Link) -> float:
        """Of these, those of one kind of link."""
        return sum(volume.exposed for volume in self.volumes if volume.link == link)

    @property
    def rate(self) -> float:
        """Tokens or samples for each second and GPU."""
        return self.work / self.seconds / self.ranks

    def scale(self, factor: float) -> StepTime:
        """This step with each part so many times as long: calibrated by measured runs."""
        if factor == 1:
            return self
        volumes = tuple(
            each._replace(seconds=each.seconds * factor, exposed=each.exposed * factor)
            for each in self.volumes
        )
        spent = (self.compute, self.bubble, self.update, self.offload)
        compute, bubble, update, offload = (seconds * factor for seconds in spent)
        return self._replace(
            compute=compute,
            volumes=volumes,
            bubble=bubble,
            update=update,
            offload=offload,
            why=(*self.why, f"x {factor:.3g} {OWN_RUNS}"),
        )


class MeasuredLinks(NamedTuple):
    """Links as an all-reduce has measured them, in the terms of ``speed.collectives``."""

    link: float = 0.0
    """Bytes per second of a GPU inside its node; 0 where that was not measured."""
    network: float = 0.0
    """Of its share of the network; 0 where that was not measured."""
    hop: float = 0.0
    """Seconds of one step over the network; 0 where that was not measured."""
    source: str = ""
    """By what, and when it was: for ``--why``."""


class ClusterHardware(NamedTuple):
    """The GPUs and what joins them. Bytes, bytes per second and FLOP/s, each in one direction."""

    gpu: str
    memory: float
    """Bytes that CUDA reports as the total."""
    peak: float
    """Dense FLOP/s of the tensor cores in 16-bit types."""
    bandwidth: float
    """Of the GPU's memory."""
    link: float
    """Of a GPU to the others in its node."""
    network: float
    """Of a GPU's share of its node's network."""
    fabric: str
    host: float = 25e9
    """Of a GPU to its node's memory."""
    node_gpus: int = 8
    nvlink_nodes: int = 1
    """Nodes whose GPUs are joined as those of one node are: a rack of NVL72 has 18."""
    nodes: int | None = None
    """Nodes of the cluster; None where that is not known."""
    node_memory: float | None = None
    disk: float = 3e9
    """Of a node's NVMe."""
    architecture: str = "Ampere"
    fast8: float = 0.0
    """Dense FLOP/s in 8-bit types; 0 where there are none."""
    multiprocessors: int = 108
    measured: MeasuredLinks | None = None
    """What an all-reduce has reached on these links."""

    def split_gpus(self, ranks: int) -> ClusterHardware:
        """The machine that the ranks see if so many share each GPU: more, smaller GPUs."""
        if ranks == 1:
            return self
        shares = ("memory", "peak", "bandwidth", "link", "network", "host", "fast8")
        each = {name: getattr(self, name) / ranks for name in shares}
        return self._replace(**each, node_gpus=self.node_gpus * ranks)
