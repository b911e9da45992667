"""What an all-reduce can reach on a profile's links, and what is to be expected there.

Bus bandwidth as nccl-tests counts it (NVIDIA/nccl-tests, doc/PERFORMANCE.md): it "should reflect
the speed of the hardware bottleneck", whatever the number of ranks. Bytes per second, one way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from jobgen.data import gpus
from jobgen.model import links
from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jobgen.model.cluster import ClusterProfile

Span = Literal["network", "node"]

SHARE = 0.8
"""Of the line rate, where nobody has published what a machine reaches: A100 NVLink 78 %, H200 80 to
82 %, network cards 73 to 85 % (stas00/ml-engineering, network/README.md)."""


class Limit(NamedTuple):
    """The link that ends an all-reduce: what it can carry, and what a healthy one carries."""

    span: Span
    rate: float
    """Line rate. An all-reduce that adds up inside the node first (NVLS, trees) may pass it."""
    why: str
    expected: float
    """Of large messages; 0 where nothing is known."""
    source: str
    """Where the expectation is from."""


class _Gate(NamedTuple):
    """An acceptance number of a cloud: a machine with eight such GPUs → bytes per second."""

    gpus: tuple[str, ...]
    rate: float
    """Line rate of such a machine's node; the gate is for at least that."""
    least: float
    source: str


_OCI = "oracle-quickstart/oci-hpc, scripts/ncclscout.py"
_AZURE = "Azure/azurehpc-health-checks, conf/"
_NETWORK = (
    _Gate(("A100-SXM4",), 200e9, 185e9, _OCI),
    _Gate(("H100-SXM5", "H200-SXM5", "B200-SXM"), 400e9, 440e9, _OCI),
    _Gate(("B300-SXM",), 800e9, 750e9, _OCI),
    _Gate(("MI300X",), 400e9, 350e9, _OCI),
)
"""Between two nodes of eight GPUs."""
_NODE = (
    _Gate(("V100-SXM2",), 150e9, 110e9, _AZURE + "nd40rs_v2.conf"),
    _Gate(("A100-SXM4",), 300e9, 228e9, _AZURE + "nd96amsr_a100_v4.conf"),
    _Gate(("H100-SXM5",), 450e9, 460e9, _AZURE + "nd96isr_h100_v5.conf"),
    _Gate(("H200-SXM5",), 450e9, 431e9, _AZURE + "nd96isr_h200_v5.conf"),
)
"""Inside a node of eight GPUs, at 8 or 16 GiB."""
_EIGHT, _TWO = 8, 2
_RDMA = ("infiniband", "roce")


def find_limit(profile: ClusterProfile, nodes: int) -> Limit | None:
    """What ends an all-reduce over so many whole nodes: ``network`` or ``link``."""
    return find_network_limit(profile, nodes) if nodes > 1 else find_link_limit(profile)


def find_network_limit(profile: ClusterProfile, nodes: int = 2) -> Limit | None:
    """The limit between nodes: all cards of one node. None where the profile does not say it.

    The gates are for two nodes, where adding up inside the node first pays most, and for RDMA.
    """
    network, gpu = profile.network, profile.nodes.gpu or ""
    ranks = profile.nodes.gpus_per_node
    rate = links.get_node_rate(network, ranks)
    if rate is None:
        return None
    count = links.count_cards(network, ranks)
    why = f"{count} x {network.nic_gbps} Gb/s per node, one way"
    known = nodes == _TWO and network.fabric in _RDMA
    return _limit("network", rate, why, _gate(_NETWORK, gpu, ranks, rate) if known else None)


def find_link_limit(profile: ClusterProfile) -> Limit | None:
    """The limit inside a node: a GPU's link to the others. None without a known GPU, or one alone.

    Over PCIe nothing is expected: what is reached depends on switches and root ports.
    """
    nodes = profile.nodes
    if nodes.gpu is None or nodes.gpus_per_node < 2:
        return None
    gpu = gpus()[nodes.gpu]
    pcie = nodes.intra == "pcie" or (nodes.intra is None and gpu.link == "pcie")
    rate = links.get_link_rate(gpu, pcie=pcie)
    if pcie:
        why = f"PCIe of one {gpu.name}, one way"
        return Limit("node", rate, why, 0.0, "no expected rate for PCIe: topologies differ")
    why = f"{gpu.link} of one {gpu.name}, {gpu.link_gbs} GB/s both ways"
    return _limit("node", rate, why, _gate(_NODE, gpu.name, nodes.gpus_per_node, rate))


def _limit(span: Span, rate: float, why: str, gate: _Gate | None) -> Limit:
    if gate is not None:
        return Limit(span, rate, why, gate.least, gate.source)
    source = f"{SHARE:.0%} of the line rate (stas00/ml-engineering, network/README.md)"
    return Limit(span, rate, why, SHARE * rate, source)


def _gate(table: tuple[_Gate, ...], gpu: str, ranks: int, rate: float) -> _Gate | None:
    """The gate of this machine: with its GPUs, for eight ranks, and links that are no slower."""
    if ranks != _EIGHT:
        return None
    found = (gate for gate in table if gpu.startswith(gate.gpus))
    return next((gate for gate in found if rate >= gate.rate), None)
