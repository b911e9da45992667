"""What a cluster's profile says of the place where variables will stand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from jobgen.fabric.variables.judgement import Context

if TYPE_CHECKING:
    from jobgen.model.cluster import ClusterProfile


def build_context(
    profile: ClusterProfile,
    *,
    nodes: int | None = None,
    gpus: int | None = None,
    ranks: int | None = None,
    others: Mapping[str, str | None] | None = None,
) -> Context:
    """The context of a job on this cluster, with so many nodes, GPUs and ranks on each."""
    from jobgen.data import gpus as catalogue

    card = catalogue().get(profile.nodes.gpu or "")
    link = card.link if card else ""
    fabric = "" if nodes == 1 else profile.network.fabric  # one node uses no network
    vendor: Literal["amd", "nvidia"] = "amd" if link == "infinity-fabric" else "nvidia"
    versions = profile.versions
    return Context(
        fabric=fabric,
        nodes=nodes,
        simulated=profile.scheduler == "local",
        maker=vendor if card else "",
        intra=profile.nodes.intra or link,
        gpus=gpus,
        cpus=profile.nodes.cpus,
        ranks=ranks,
        versions={
            name: str(release)
            for name in ("nccl", "rccl", "torch", "libfabric", "ofi_nccl")
            if (release := getattr(versions, name)) is not None
        },
        defaults=_own(profile, nodes, gpus, ranks),
        others=others or {},
    )


def _own(
    profile: ClusterProfile, nodes: int | None, gpus: int | None, ranks: int | None
) -> Mapping[str, str]:
    """What jobgen sets there; of a job whose size is not known, on two whole nodes."""
    from jobgen.fabric import configure_network
    from jobgen.model.decision import NOWHERE
    from jobgen.model.plan import Shape

    gpus = profile.nodes.gpus_per_node if gpus is None else gpus
    shape = Shape(nodes or 2, ranks or gpus or 1, gpus or 0, None, 1, 0)
    return {
        name: set_.value
        for name, set_ in configure_network(profile, shape, lambda *_: NOWHERE).env.items()
    }


_SIGNS = (
    ("NCCL_GPUDIRECTTCPX_", "tcpx"),
    ("NCCL_FASTRAK_", "tcpxo"),
    ("FI_EFA_", "efa"),
    ("OFI_NCCL_", "efa"),
)
"""Prefixes of variables that only one network has."""


def guess_network(others: Mapping[str, str | None]) -> str:
    """The network that the variables of a script were written for; empty where none tells."""
    if (others.get("NCCL_NET") or "").lower() == "gib":
        return "gib"
    return next((net for sign, net in _SIGNS if any(n.startswith(sign) for n in others)), "")
