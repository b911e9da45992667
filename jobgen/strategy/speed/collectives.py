"""Seconds of a collective: which links its ranks span, how many bytes each carries, how many
steps it has."""

from __future__ import annotations

from math import log2
from typing import Literal

from jobgen.named_tuple import NamedTuple
from jobgen.strategy.estimate import ClusterHardware, MeasuredLinks
from jobgen.strategy.setup import Setup
from jobgen.strategy.speed.rates import LINK, NETWORK

Collective = Literal["all-gather", "reduce-scatter", "all-reduce", "all-to-all", "send"]
Axis = Literal["tp", "cp", "shard", "replicate", "pp", "ep", "shards", "data"]
When = Literal[
    "forward",
    "backward",
    "last",
    "update",
    "layer",
    "product",
    "gradient",
    "recomputed",
    "blocks forward",
    "blocks backward",
    "start",
    "ring",
    "boundary",
]

_PROTOCOLS = ((8.4e-6, 3.4e-6, 14.0e-6, 1.0), (14.0e-6, 1.9e-6, 4.0e-6, 0.92))
"""Seconds to begin, of a step inside the node and of one over the network, and the part of the
bandwidth that is data: NCCL's protocols Simple and LL128 on a ring (src/graph/tuning.cc)."""


_NVLINK = 70e9
"""Bytes per second: no PCIe before 6.0 has as many, and all NVLinks do."""


class RankGroup(NamedTuple):
    """Ranks that talk to each other."""

    size: int
    inside: int
    """Of them on one node, or on nodes that NVLink joins."""

    @property
    def nodes(self) -> int:
        """Nodes that they lie on."""
        return -(-self.size // self.inside)


class Load(NamedTuple):
    """What one rank sends in one collective. Bytes."""

    node: float
    network: float


class Traffic(NamedTuple):
    """Collectives of one kind in one step."""

    what: Collective
    of: str
    ranks: RankGroup
    payload: float
    """Bytes of each, in all ranks together."""
    times: float
    """How many there are in a step."""
    when: When
    """What is computed at that time: the forward or the backward pass of every micro-batch, the
    backward pass of the last one, nothing (after the update, within a layer, between stages), the
    product that takes or makes what is sent, the product of the backward pass that does, the one
    that is computed again, one block of another micro-batch's layer, attention, or its first step
    of cp."""
    first: float = 0.0
    """Bytes of the one that nothing lies beside: the first, or the last."""
    forwarded: float = 0.0
    """Bytes of each for all nodes, where nodes forward them to their ranks."""
    fused: bool = False
    """Kernels of DeepEP or HybridEP send it."""


def build_group(setup: Setup, *axes: Axis) -> RankGroup:
    """The ranks along these axes. Neighbours come first along tp, then cp, the shards, the copies
    of the model, and the stages of the pipeline last, as Megatron and torchtitan order them."""
    mesh = setup.mesh
    stride, size = 1, 1
    for name, degree in (
        ("tp", mesh.tp),
        ("cp", mesh.cp),
        ("shard", mesh.shard),
        ("replicate", mesh.replicate),
        ("pp", mesh.pp),
    ):
        if name in axes:
            size *= degree
        elif size == 1:
            stride *= degree
    joined = setup.world_per_node * setup.nvlink_nodes
    return RankGroup(size, max(1, min(size, joined // stride)))


def cut_group(whole: RankGroup, size: int) -> RankGroup:
    """The first ``size`` neighbours of a group."""
    return RankGroup(size, min(size, whole.inside))


def compute_load(
    what: Collective, ranks: RankGroup, payload: float, forwarded: float = 0.0
) -> Load:
    """Bytes that one rank sends. ``payload`` is what is gathered, reduced or exchanged in all.

    A ring over k nodes with g ranks each crosses a node's border once for each ring, and rings are
    laid over all cards: a card carries (k - 1) / k of the payload divided by g, and the link inside
    the node the rest of (n - 1) / n (stas00/ml-engineering, network/README.md, "Inter-node speed
    depends on intra-node speed"). An all-reduce does it twice. Of an all-to-all, what is for ranks
    of other nodes leaves the node undivided; ``forwarded`` are the bytes for all nodes where each
    forwards them to its ranks.
    """
    n, g, k = ranks.size, ranks.inside, ranks.nodes
    if n == 1:
        return Load(0.0, 0.0)
    if what == "all-to-all" and forwarded:
        return Load(payload * (g - 1) / g, forwarded * (k - 1) / k)
    if what == "all-to-all":
        return Load(payload * (g - 1) / n, payload * (n - g) / n)
    if what == "send":
        return Load(0.0, payload) if k > 1 else Load(payload, 0.0)
    times = 2 if what == "all-reduce" else 1
    outside = times * payload * (k - 1) / k / g
    return Load(times * payload * (n - 1) / n - outside, outside)


def time_collective(
    what: Collective,
    ranks: RankGroup,
    payload: float,
    machine: ClusterHardware,
    forwarded: float = 0.0,
) -> tuple[Load, Load]:
    """Bytes that one rank sends in a collective, and the seconds of the links inside the node and
    of the network.

    Both work at the same time, so the collective takes the longer of the two. Each has the latency
    of all steps: n - 1 of a ring, twice that for an all-reduce, which may also be a tree.
    """
    sent = compute_load(what, ranks, payload, forwarded)
    if ranks.size == 1:
        return sent, sent
    inside, outside = get_link_speeds(machine)
    near, far = sent.node / inside, sent.network / outside
    hop = machine.measured.hop if machine.measured else 0.0
    near_latency, far_latency = _latency(what, ranks, near, far, hop)
    node = near + near_latency if sent.node else 0.0
    return sent, Load(node, far + far_latency if sent.network else 0.0)


def get_link_speeds(machine: ClusterHardware) -> tuple[float, float]:
    """Bytes per second inside the node and over the network: as measured, or what others reach of
    the line rate."""
    known = machine.measured or MeasuredLinks()
    usual = machine.link * LINK["nvlink" if machine.link > _NVLINK else "pcie"]
    return known.link or usual, known.network or machine.network * NETWORK


def fit_links(busbw: float, alpha: float, ranks: RankGroup) -> MeasuredLinks:
    """The links behind an all-reduce with this bus bandwidth, which took ``alpha`` to begin.

    So that the formulas here give the time that was measured: all of it is taken to be the network
    where the ranks lie on several nodes.
    """
    n, k = ranks.size, ranks.nodes
    if k == 1:
        return MeasuredLinks(link=busbw)
    begin, inside, _, _ = _PROTOCOLS[0]
    steps = min(2.0 * (k - 1), 2 * log2(k))
    hop = (alpha - begin - 2.0 * (ranks.inside - 1) * inside) / steps
    return MeasuredLinks(network=busbw * (k - 1) / (n - 1), hop=max(hop, 0.0))


def compute_seconds(load: Load) -> float:
    """Seconds of a collective whose links work side by side."""
    return max(load)


def _latency(
    what: Collective, ranks: RankGroup, near: float, far: float, hop: float
) -> tuple[float, float]:
    """Seconds to add to the transfer on each link: of the protocol that is done first. ``hop`` are
    those of a step over the network, where they were measured."""
    slow = float(ranks.nodes - 1)
    fast = ranks.size - 1 - slow
    if what in {"send", "all-to-all"}:
        slow, fast = min(slow, 1.0), min(fast, 1.0)
    elif what == "all-reduce" and ranks.nodes > 1:
        slow, fast = min(2 * slow, 2 * log2(ranks.nodes)), 2.0 * (ranks.inside - 1)
    elif what == "all-reduce":
        fast *= 2
    waits = []
    for begin, inside, outside, share in _PROTOCOLS:
        wait = begin + fast * inside + slow * (hop or outside)
        waits.append((near * (1 / share - 1) + wait, far * (1 / share - 1) + wait))
    return min(waits, key=lambda pair: max(near + pair[0], far + pair[1]))
