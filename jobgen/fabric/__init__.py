"""The network between nodes → the environment of NCCL, Gloo and libfabric, each with its why.

Only what the network needs. NCCL's defaults are its makers' best settings, so a variable stands
here to say which network is expected (a silent fall-back to TCP becomes an error), to name the
right cards and interfaces, or because the site says so. Facts: NCCL's user guide (env.rst), its
sources at 2.30, and aws-ofi-nccl's platform file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from jobgen.model.plan import Part, Setting

if TYPE_CHECKING:
    from jobgen.model.cluster import Network, Reasoned

_DEVICE = re.compile(r"_\d+$|\ds\d+\w*$|_re\d+$")
"""The end of a card's whole name: mlx5_0, ibp24s0, bnxt_re0. A bare mlx5 or ibp is a prefix."""

_Why = Callable[..., str]
"""Keys below ``network`` → the label of the line in the profile that says so."""


def fabric(network: Network, *, gpus: bool, nodes: int, place: _Why) -> Part:
    """What this network asks of a job: nothing on one node, Gloo's share only without GPUs."""
    if nodes < 2:
        return Part(f"network {network.fabric}")
    env = _gloo(network, place)
    site = _site(network, place)
    if gpus:
        env = _FABRICS[network.fabric](network, place) | env | site
    else:
        env |= {name: value for name, value in site.items() if not name.startswith("NCCL_")}
    return Part(f"network {network.fabric}", env=env)


def _infiniband(network: Network, place: _Why) -> dict[str, Setting]:
    expect = "the network is InfiniBand: without it, NCCL must fail and not crawl over TCP"
    return (
        {"NCCL_NET": Setting("IB", expect, place("fabric"))}
        | _cards(network, place)
        | _sockets(network, place)
    )


def _roce(network: Network, place: _Why) -> dict[str, Setting]:
    expect = "the network is RoCE, which NCCL calls IB: without it, NCCL must fail and not crawl"
    env = {"NCCL_NET": Setting("IB", expect, place("fabric"))} | _cards(network, place)
    if network.gid_index is not None:
        why = "NCCL before 2.21 cannot find the RoCE v2 entry of the GID table itself"
        env["NCCL_IB_GID_INDEX"] = Setting(str(network.gid_index), why, place("gid_index"))
    if network.traffic_class is not None:
        why = "the traffic class that this network's switches keep lossless"
        env["NCCL_IB_TC"] = Setting(str(network.traffic_class), why, place("traffic_class"))
    return env | _sockets(network, place)


def _ethernet(network: Network, place: _Why) -> dict[str, Setting]:
    why = "the network is plain Ethernet: NCCL must not try RDMA cards that reach nobody"
    env = {"NCCL_NET": Setting("Socket", why, place("fabric"))} | _sockets(network, place)
    if (network.nic_gbps or 0) >= 100:
        why = f"one TCP stream cannot fill {network.nic_gbps} Gb/s: NCCL's advice from 100 Gb/s"
        env["NCCL_SOCKET_NTHREADS"] = Setting("4", why, place("nic_gbps"))
        env["NCCL_NSOCKS_PERTHREAD"] = Setting("4", why, place("nic_gbps"))
    return env


def _efa(network: Network, place: _Why) -> dict[str, Setting]:
    # releases of the plug-in after 1.11 call themselves Libfabric and still answer to this name
    why = "the network is EFA: NCCL must use its plug-in, which sets the rest itself, and not TCP"
    env = {"NCCL_NET": Setting("AWS Libfabric", why, place("fabric"))}
    if network.socket_ifname is None:
        why = "bootstrap over the instance's own interfaces, not over bridges that others share"
        return env | {"NCCL_SOCKET_IFNAME": Setting("^docker,lo,veth", why, place("fabric"))}
    return env | _sockets(network, place)


def _none(network: Network, place: _Why) -> dict[str, Setting]:
    return _sockets(network, place)


_FABRICS: Mapping[str, Callable[[Network, _Why], dict[str, Setting]]] = {
    "infiniband": _infiniband,
    "roce": _roce,
    "ethernet": _ethernet,
    "efa": _efa,
    "slingshot": _none,
    "tcpx": _none,
    "tcpxo": _none,
    "gib": _none,
    "none": _none,
}


def _cards(network: Network, place: _Why) -> dict[str, Setting]:
    """NCCL_IB_HCA. Its names are prefixes, so mlx5_1 would take mlx5_10 too; ``=`` is exact."""
    if network.ib_hca is None:
        return {}
    names = network.ib_hca
    whole = all(_DEVICE.search(name.partition(":")[0]) for name in names.split(","))
    if names[0] in "=^" or not whole:
        return {"NCCL_IB_HCA": Setting(names, "the cards of the training network", place("ib_hca"))}
    why = "the cards of the training network; = takes the names as they are, not as prefixes"
    return {"NCCL_IB_HCA": Setting(f"={names}", why, place("ib_hca"))}


def _sockets(network: Network, place: _Why) -> dict[str, Setting]:
    """NCCL_SOCKET_IFNAME: bootstrap and TCP. Its names are prefixes too."""
    names = network.socket_ifname
    if names is None:
        return {}
    exact = names if names[0] in "=^" else f"={names}"
    why = "the interface on which the nodes reach each other; = takes the name as it is"
    return {"NCCL_SOCKET_IFNAME": Setting(exact, why, place("socket_ifname"))}


def _gloo(network: Network, place: _Why) -> dict[str, Setting]:
    """GLOO_SOCKET_IFNAME, which takes whole names and neither ``=`` nor ``^``."""
    names = (network.socket_ifname or "").removeprefix("=")
    if not names or names.startswith("^"):
        return {}
    why = "the same interface for Gloo, which would else ask the host name and may get loopback"
    return {"GLOO_SOCKET_IFNAME": Setting(names, why, place("socket_ifname"))}


def _site(network: Network, place: _Why) -> dict[str, Setting]:
    return {
        name: Setting(entry.value, _said(entry), place("env", name))
        for name, entry in network.env.items()
    }


def _said(entry: Reasoned) -> str:
    why = entry.why or "the site's own setting for its network"
    return f"{why} ({entry.source})" if entry.source else why
