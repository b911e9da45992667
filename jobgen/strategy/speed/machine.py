"""The machine of a cluster's profile: its GPUs, what joins them, and what joins its nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobgen.data import Gpu, gpus
from jobgen.strategy.estimate import GIB, Machine

if TYPE_CHECKING:
    from jobgen.model.cluster import ClusterProfile, Network

_GBPS = {"infiniband": 200, "roce": 200, "efa": 100, "ethernet": 100, "none": 10}
"""Gigabits a second of a card where the profile does not say: HDR InfiniBand, its like in RoCE, an
EFA device of p4d and p5, the one card of a node in an ordinary data centre, and none of them."""
_SHARED = ("ethernet", "none")
"""Networks that have one card for the node, where the profile does not say how many."""
_NARROW = {"Hopper": 2.0, "Ada": 2.0, "Blackwell": 2.0, "CDNA3": 2.0}
"""How much faster 8-bit products are than 16-bit ones, dense (the vendors' datasheets)."""
_HOST = {"pcie3": 13.0e9, "pcie4": 26.0e9, "pcie5": 55.0e9}
"""Bytes per second from host memory: 55 of 63 GB/s was measured on PCIe 5.0 x16
(stas00/ml-engineering, network/README.md); the older ones by the same 88 %, rounded down."""
_BUS = {"Pascal": "pcie3", "Volta": "pcie3", "Turing": "pcie3", "Hopper": "pcie5"} | {
    "Blackwell": "pcie5",
    "CDNA3": "pcie5",
}


def machine(profile: ClusterProfile) -> Machine | None:
    """The machine of a profile; None where its nodes have no GPU of the catalogue."""
    nodes = profile.nodes
    if not nodes.gpus_per_node or nodes.gpu is None:
        return None
    return built(
        gpus()[nodes.gpu],
        nodes.gpus_per_node,
        card(profile.network, nodes.gpus_per_node),
        profile.network.fabric,
        pcie=nodes.intra == "pcie",
        memory=nodes.mem,
    )


def card(network: Network, ranks: int) -> float:
    """Bytes per second, in one direction, of one GPU's share of its node's cards."""
    cards = network.nics or (1 if network.fabric in _SHARED else ranks)
    rate = network.nic_gbps or _GBPS.get(network.fabric, 100)
    return cards * rate * 1e9 / 8 / ranks


def built(
    gpu: Gpu,
    ranks: int,
    network: float,
    fabric: str,
    *,
    pcie: bool = False,
    memory: float | None = None,
) -> Machine:
    """A machine of these GPUs, ``ranks`` on a node, each with ``network`` bytes per second."""
    host = _HOST[_BUS.get(gpu.architecture, "pcie4")]
    peak = gpu.bf16_tflops * 1e12
    return Machine(
        gpu=gpu.name,
        memory=gpu.memory_gib * GIB,
        peak=peak,
        bandwidth=gpu.memory_gbs * 1e9,
        link=host / 0.88 if pcie else gpu.link_gbs * 1e9 / 2,
        network=network,
        fabric=fabric,
        host=host,
        node_gpus=ranks,
        node_memory=memory,
        architecture=gpu.architecture,
        fast8=peak * _NARROW.get(gpu.architecture, 0.0),
    )
