"""InfiniBand and RoCE: NCCL's own verbs transport, which it calls IB for both.

Source of names, releases and defaults: NCCL's user guide, env.rst.
"""

from __future__ import annotations

from jobgen.errors import Diagnostic
from jobgen.fabric.network_settings import Env, NetworkSite, set_cards, set_sockets
from jobgen.model.decision import Setting
from jobgen.model.plan import Part


def configure_infiniband(site: NetworkSite) -> Part:
    """The cards by name; nothing else, and no fall-back to TCP."""
    why = "InfiniBand only: fail instead of silently falling back to TCP"
    env = {"NCCL_NET": Setting("IB", why, site.place("network", "fabric"))}
    return Part("", env=env | set_cards(site) | set_sockets(site))


def configure_roce(site: NetworkSite) -> Part:
    """As InfiniBand, with the entry of the GID table and the lossless traffic classes."""
    why = "RoCE only (NCCL calls it IB): fail instead of silently falling back to TCP"
    env = {"NCCL_NET": Setting("IB", why, site.place("network", "fabric"))} | set_cards(site)
    gid, notes = _gid(site)
    return Part("", env=env | gid | _classes(site) | set_sockets(site), notes=notes)


def _gid(site: NetworkSite) -> tuple[Env, tuple[Diagnostic, ...]]:
    """Which address of a card is used: its number for old NCCL; from 2.21 at most its range."""
    network, env = site.network, Env()
    if network.gid_index is not None and not site.is_newer("nccl", "2.21"):
        why = "NCCL before 2.21 cannot find the RoCE v2 entry of the GID table itself"
        place = site.place("network", "gid_index")
        return {"NCCL_IB_GID_INDEX": Setting(str(network.gid_index), why, place)}, ()
    notes: tuple[Diagnostic, ...] = ()
    if network.gid_index is not None:
        message = (
            "network.gid_index is not used: NCCL 2.21 and later finds the RoCE v2 entry itself"
        )
        hint = "remove it; use addr_range to choose among several addresses of a NIC"
        notes = (Diagnostic("J184", message, None, hint, severity="note"),)
    if network.addr_range is not None and not site.is_older("nccl", "2.21"):
        place = site.place("network", "addr_range")
        if ":" in network.addr_range:
            why = "the address range below is IPv6; NCCL's default is IPv4"
            env["NCCL_IB_ADDR_FAMILY"] = Setting("AF_INET6", why, place)
        why = "address range of the training network, for NICs with several addresses"
        env["NCCL_IB_ADDR_RANGE"] = Setting(network.addr_range, why, place)
    return env, notes


def _classes(site: NetworkSite) -> Env:
    network, env = site.network, Env()
    if network.traffic_class is not None:
        why = "lossless traffic class of this network's switches"
        place = site.place("network", "traffic_class")
        env["NCCL_IB_TC"] = Setting(str(network.traffic_class), why, place)
    if network.fifo_traffic_class is not None and not site.is_older("nccl", "2.22.3"):
        why = "traffic class for NCCL's small control messages, which get priority"
        place = site.place("network", "fifo_traffic_class")
        env["NCCL_IB_FIFO_TC"] = Setting(str(network.fifo_traffic_class), why, place)
    return env
