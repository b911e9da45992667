"""Networks without RDMA: plain Ethernet, and none that anybody described."""

from __future__ import annotations

from jobgen.fabric.network_settings import NetworkSite, set_sockets
from jobgen.model.decision import Setting
from jobgen.model.plan import Part


def configure_ethernet(site: NetworkSite) -> Part:
    """TCP, over several streams where one cannot fill the card (NCCL's user guide, env.rst)."""
    why = "Ethernet only: ignore HCAs that do not reach the other nodes"
    env = {"NCCL_NET": Setting("Socket", why, site.place("network", "fabric"))} | set_sockets(site)
    rate = site.network.nic_gbps or 0
    if rate >= 100:
        why = f"one TCP stream cannot saturate {rate} Gb/s; NCCL recommends this from 100 Gb/s"
        place = site.place("network", "nic_gbps")
        env["NCCL_SOCKET_NTHREADS"] = Setting("4", why, place)
        env["NCCL_NSOCKS_PERTHREAD"] = Setting("4", why, place)
    return Part("", env=env)


def configure_interface(site: NetworkSite) -> Part:
    """The interface, where the profile names it."""
    return Part("", env=set_sockets(site))
