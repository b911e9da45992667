"""The machine of a cluster's profile: its GPUs, what joins them, and what joins its nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobgen.data import GpuModel, gpus
from jobgen.model import links
from jobgen.strategy.estimate import MIB, ClusterHardware

if TYPE_CHECKING:
    from jobgen.model.cluster import ClusterProfile
    from jobgen.model.network import Network

_GBPS = {"infiniband": 200, "roce": 200, "efa": 100, "ethernet": 100, "none": 10} | {
    "unknown": 10,
    "slingshot": 200,
    "tcpx": 200,
    "tcpxo": 200,
    "gib": 400,
}
"""Gigabits a second of a card where the profile does not say: HDR InfiniBand, its like in RoCE, an
EFA device of p4d and p5, the one card of a node in an ordinary data centre, and none of them."""
NARROW = {"Hopper": 2.0, "Ada": 2.0, "Blackwell": 2.0, "CDNA3": 2.0, "CDNA4": 2.0}
"""How much faster 8-bit products are than 16-bit ones, dense (the vendors' datasheets)."""


def read_machine(profile: ClusterProfile) -> ClusterHardware | None:
    """The machine of a profile; None where its nodes have no GPU of the catalogue."""
    nodes = profile.nodes
    if not nodes.gpus_per_node or nodes.gpu is None:
        return None
    machine = build_machine(
        gpus()[nodes.gpu],
        nodes.gpus_per_node,
        compute_card_rate(profile.network, nodes.gpus_per_node),
        profile.network.fabric,
        pcie=nodes.intra == "pcie",
        memory=nodes.mem,
    )
    return machine._replace(nodes=nodes.count, nvlink_nodes=nodes.nvlink_nodes or 1)


def compute_card_rate(network: Network, ranks: int) -> float:
    """Bytes per second, in one direction, of one GPU's share of its node's cards."""
    known = links.get_node_rate(network, ranks)
    if known is None:
        known = links.count_cards(network, ranks) * _GBPS.get(network.fabric, 100) * 1e9 / 8
    return known / ranks


def build_machine(
    gpu: GpuModel,
    ranks: int,
    network: float,
    fabric: str,
    *,
    pcie: bool = False,
    memory: float | None = None,
) -> ClusterHardware:
    """A machine of these GPUs, ``ranks`` on a node, each with ``network`` bytes per second."""
    peak = gpu.bf16_tflops * 1e12
    return ClusterHardware(
        gpu=gpu.name,
        memory=gpu.memory_mib * MIB,
        peak=peak,
        bandwidth=gpu.memory_gbs * 1e9,
        link=links.get_link_rate(gpu, pcie=pcie),
        network=network,
        fabric=fabric,
        host=links.get_host_rate(gpu),
        node_gpus=ranks,
        node_memory=memory,
        architecture=gpu.architecture,
        multiprocessors=gpu.multiprocessors,
        fast8=peak * NARROW.get(gpu.architecture, 0.0),
    )
