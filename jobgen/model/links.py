"""Line rates of what joins nodes and GPUs, in bytes per second and in one direction."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobgen.data import GpuModel
    from jobgen.model.network import Network

_SHARED = ("ethernet", "none", "unknown")
"""Networks that have one card for the node, where the profile does not say how many."""
_HOST = {"pcie3": 13.0e9, "pcie4": 26.0e9, "pcie5": 55.0e9}
"""Bytes per second from host memory: 55 of 63 GB/s was measured on PCIe 5.0 x16
(stas00/ml-engineering, network/README.md); the older ones by the same 88 %, rounded down."""
_SUPERCHIPS = {"GH200": 297e9}
"""The same where NVLink joins a GPU with its CPU: to the host, 375 GB/s from it (arXiv
2407.07850)."""
_BUS = {"Pascal": "pcie3", "Volta": "pcie3", "Turing": "pcie3", "Hopper": "pcie5"} | {
    "Blackwell": "pcie5",
    "CDNA3": "pcie5",
    "CDNA4": "pcie5",
}


def count_cards(network: Network, ranks: int) -> int:
    """Network cards of a node: as the profile says, else one, or one for each of the GPUs."""
    return network.nics or (1 if network.fabric in _SHARED else max(ranks, 1))


def get_node_rate(network: Network, ranks: int) -> float | None:
    """Bytes per second of all cards of a node; None where the profile does not say a card's."""
    if network.nic_gbps is None:
        return None
    return count_cards(network, ranks) * network.nic_gbps * 1e9 / 8


def get_host_rate(gpu: GpuModel) -> float:
    """Bytes per second that are reached between a GPU and its node's memory."""
    joined = (rate for name, rate in _SUPERCHIPS.items() if gpu.name.startswith(name))
    return next(joined, _get_bus_rate(gpu))


def _get_bus_rate(gpu: GpuModel) -> float:
    return _HOST[_BUS.get(gpu.architecture, "pcie4")]


def get_link_rate(gpu: GpuModel, *, pcie: bool = False) -> float:
    """Bytes per second of a GPU to the others in its node; over PCIe where ``pcie``."""
    return _get_bus_rate(gpu) / 0.88 if pcie else gpu.link_gbs * 1e9 / 2
