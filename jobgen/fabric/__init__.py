"""The network between nodes → the environment of NCCL, Gloo and libfabric, each with its why.

Only what the network needs. NCCL's defaults are its makers' best settings, so a variable stands
here to say which network is expected (a silent fall-back to TCP becomes an error), to name the
right cards and interfaces, or because a vendor or the site says so. What a release does itself is
left to it; where the profile's ``versions`` are silent, current releases are meant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from jobgen.errors import Place
from jobgen.fabric.google import configure_gib, configure_tcpx, configure_tcpxo
from jobgen.fabric.libfabric import configure_efa, configure_slingshot
from jobgen.fabric.network_settings import Env, NetworkSite, list_profile_env, set_gloo
from jobgen.fabric.node_settings import configure_node
from jobgen.fabric.sockets import configure_ethernet, configure_interface
from jobgen.fabric.verbs import configure_infiniband, configure_roce
from jobgen.model.part_plans import Mount
from jobgen.model.plan import Part, Shape

if TYPE_CHECKING:
    from jobgen.model.cluster import ClusterProfile
    from jobgen.model.network import Fabric

FABRICS: Mapping[Fabric, Callable[[NetworkSite], Part]] = {
    "infiniband": configure_infiniband,
    "roce": configure_roce,
    "ethernet": configure_ethernet,
    "efa": configure_efa,
    "slingshot": configure_slingshot,
    "tcpx": configure_tcpx,
    "tcpxo": configure_tcpxo,
    "gib": configure_gib,
    "none": configure_interface,
    "unknown": configure_interface,
}


def configure_network(cluster: ClusterProfile, shape: Shape, place: Callable[..., Place]) -> Part:
    """What this cluster's network asks of a job of this shape.

    On one node nothing but what its GPUs need; without GPUs Gloo's share only. ``place`` gives
    the label of the profile's line with these keys.
    """
    site = NetworkSite(cluster.network, cluster.nodes, cluster.versions, place)
    name = f"network {cluster.network.fabric}"
    if not shape.gpus_per_node:
        return Part(name, env=_without_gpus(site) if shape.nodes > 1 else {})
    inside = configure_node(site, shape)
    if shape.nodes < 2:
        return inside._replace(name=name)
    part = FABRICS[cluster.network.fabric](site)
    mounts = (*part.mounts, *inside.mounts, *(Mount(p, p) for p in cluster.network.mounts))
    env: Env = {**part.env, **set_gloo(site), **inside.env, **list_profile_env(site)}
    return part._replace(name=name, env=env, mounts=mounts)


def _without_gpus(site: NetworkSite) -> Env:
    return set_gloo(site) | {
        n: s for n, s in list_profile_env(site).items() if not n.startswith("NCCL_")
    }
