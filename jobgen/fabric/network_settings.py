"""What the functions of the networks look at, and the settings that several networks share."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from jobgen.errors import Place
from jobgen.model.decision import Setting
from jobgen.model.units import Release
from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jobgen.model.network import Network
    from jobgen.model.node_hardware import Nodes, Versions

Env = dict[str, Setting]

_DEVICE = re.compile(r"_\d+$|\ds\d+\w*$|_re\d+$")
"""The end of a card's whole name: mlx5_0, ibp24s0, bnxt_re0. A bare mlx5 or ibp is a prefix."""


class NetworkSite(NamedTuple):
    """A cluster as far as its network goes, and the label of each line that says so."""

    network: Network
    nodes: Nodes
    versions: Versions
    place: Callable[..., Place]
    """Keys of the profile → the label of the line in which they stand."""

    def is_older(self, program: str, release: str) -> bool:
        """Whether what is installed is known, and older than this release."""
        return self._installed(program, Release.parse(release)) < 0

    def is_newer(self, program: str, release: str) -> bool:
        """Whether what is installed is known, and this release or a later one."""
        return self._installed(program, Release.parse(release)) > 0

    def _installed(self, program: str, release: Release) -> int:
        """-1, 1, or 0 where the profile does not say. RCCL takes its numbers from NCCL's."""
        found: Release | None = getattr(self.versions, program)
        if program == "nccl" and found is None:
            found = self.versions.rccl
        if found is None:
            return 0
        return -1 if found < release else 1


def set_cards(site: NetworkSite) -> Env:
    """NCCL_IB_HCA. Its names are prefixes, so mlx5_1 would take mlx5_10 too; ``=`` is exact."""
    names, place = site.network.ib_hca, site.place("network", "ib_hca")
    if names is None:
        return {}
    whole = all(_DEVICE.search(name.partition(":")[0]) for name in names.split(","))
    if names[0] in "=^" or not whole:
        return {"NCCL_IB_HCA": Setting(names, "HCAs for training traffic", place)}
    why = "HCAs for training traffic; `=` matches names exactly"
    return {"NCCL_IB_HCA": Setting(f"={names}", why, place)}


def set_sockets(site: NetworkSite) -> Env:
    """NCCL_SOCKET_IFNAME: bootstrap and TCP. Its names are prefixes too."""
    names = site.network.socket_ifname
    if names is None:
        return {}
    exact = names if names[0] in "=^" else f"={names}"
    why = "interface between the nodes; `=` matches the name exactly"
    return {"NCCL_SOCKET_IFNAME": Setting(exact, why, site.place("network", "socket_ifname"))}


def set_gloo(site: NetworkSite) -> Env:
    """GLOO_SOCKET_IFNAME, which takes whole names and neither ``=`` nor ``^``."""
    names = (site.network.socket_ifname or "").removeprefix("=")
    if not names or names.startswith("^"):
        return {}
    why = "same interface for Gloo, which may otherwise pick loopback from the host name"
    why = "all nodes are this machine: Gloo uses loopback" if names == "lo" else why
    return {"GLOO_SOCKET_IFNAME": Setting(names, why, site.place("network", "socket_ifname"))}


def list_profile_env(site: NetworkSite) -> Env:
    """What the profile itself says that its network needs, each with the profile's why."""
    return {
        name: Setting(
            entry.value, _said(entry.why, entry.source), site.place("network", "env", name)
        )
        for name, entry in site.network.env.items()
    }


def build_settings(table: Mapping[str, tuple[str, str]], place: Place) -> Env:
    """Settings from a table: name → (value, why)."""
    return {name: Setting(value, why, place) for name, (value, why) in table.items()}


def _said(why: str, source: str) -> str:
    why = why or "set by the site for its network"
    return f"{why}; source: {source}" if source else why
