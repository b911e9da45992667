"""Rules about the network: settings that fight with what the cluster has."""

from __future__ import annotations

import re

from jobgen.errors import Severity
from jobgen.fabric.variables.judgement import VariableCase, VariableDiagnostic
from jobgen.named_tuple import NamedTuple
from jobgen.wording import count

RDMA = frozenset({"infiniband", "roce"})
_VERBS = RDMA | {"gib"}
_TCP = frozenset({"ethernet", "none"})
_PLUGGED = frozenset({"efa", "tcpx", "tcpxo", "gib", "slingshot"})
_ALL = RDMA | _TCP | _PLUGGED
_NVLINKED = frozenset({"nvlink", "nvswitch"})
_CALLED = {
    "infiniband": "InfiniBand",
    "roce": "RoCE",
    "ethernet": "plain Ethernet",
    "efa": "EFA",
    "tcpx": "GPUDirect-TCPX",
    "tcpxo": "GPUDirect-TCPXO",
    "gib": "gIB",
    "slingshot": "Slingshot",
    "none": "not a special network",
}

_NETS = {
    "ib": _VERBS,
    "socket": _TCP,
    "aws libfabric": frozenset({"efa", "slingshot"}),
    "libfabric": frozenset({"efa", "slingshot"}),
    "ofi": frozenset({"efa", "slingshot"}),
    "gib": frozenset({"gib"}),
    "gpudirecttcpx_v7": frozenset({"tcpx"}),
    "fastrak": frozenset({"tcpxo"}),
}
"""What NCCL_NET may name → the networks that have it."""


class Clash(NamedTuple):
    """A setting that a kind of network makes wrong, or makes superfluous."""

    name: str
    """A pattern of names."""
    value: str
    """A pattern of values; empty: any."""
    fabrics: frozenset[str]
    says: str
    hint: str
    severity: Severity = "warning"


_SELF = "remove it"
CLASHES = (
    Clash(
        "NCCL_IB_DISABLE",
        "1",
        RDMA,
        "disables {fabric}: NCCL falls back to slow TCP",
        "remove it; NCCL_NET=IB turns a silent fallback to TCP into an error",
    ),
    Clash(
        "NCCL_IB_HCA",
        "",
        _TCP | {"efa", "tcpx", "tcpxo"},
        "selects HCAs, but the network is {fabric}",
        "remove it, or correct network.fabric in the profile",
    ),
    Clash(
        "NCCL_IB_(GID_INDEX|ADDR_FAMILY|ADDR_RANGE|ROCE_VERSION_NUM)",
        "(?!-1$).*",
        frozenset({"infiniband"}),
        "is for RoCE, but the network is InfiniBand",
        _SELF,
    ),
    Clash(
        "NCCL_IB_(?!DISABLE|HCA).*",
        "",
        _TCP | {"efa", "tcpx", "tcpxo"},
        "is for the IB transport, which {fabric} does not use",
        _SELF,
        "note",
    ),
    Clash(
        "NCCL_(SOCKET_NTHREADS|NSOCKS_PERTHREAD)",
        "",
        RDMA | {"efa"},
        "is for the TCP transport, which {fabric} does not use",
        _SELF,
        "note",
    ),
    Clash(
        "FI_PROVIDER",
        "(?!.*efa).+",
        frozenset({"efa"}),
        "selects a provider other than EFA",
        "remove it: the plug-in selects efa",
    ),
    Clash(
        "FI_PROVIDER",
        ".*efa.*",
        _ALL - {"efa"},
        "requires EFA, which this cluster does not have",
        _SELF,
    ),
    Clash(
        "FI_EFA_.*",
        "",
        _ALL - {"efa"},
        "is for EFA, which this cluster does not have",
        _SELF,
        "note",
    ),
    Clash(
        "OFI_NCCL_.*",
        "",
        _ALL - {"efa", "slingshot"},
        "is for a plug-in that {fabric} does not use",
        _SELF,
        "note",
    ),
    Clash("RDMAV_FORK_SAFE", "", frozenset({"efa"}), "breaks EFA on newer kernels", _SELF),
    Clash(
        "NCCL_GPUDIRECTTCPX_.*",
        "",
        _ALL - {"tcpx"},
        "is for GPUDirect-TCPX, which this cluster does not have",
        _SELF,
        "note",
    ),
    Clash(
        "NCCL_FASTRAK_.*",
        "",
        _ALL - {"tcpxo"},
        "is for TCPXO, which this cluster does not have",
        _SELF,
        "note",
    ),
    Clash(
        "NCCL_NET_PLUGIN",
        "none",
        _PLUGGED,
        "disables the plug-in that {fabric} needs: NCCL falls back to slow TCP",
        _SELF,
    ),
    Clash(
        "NCCL_COLLNET_ENABLE",
        "1",
        _ALL - _VERBS,
        "is for SHARP, which only InfiniBand switches have",
        _SELF,
    ),
)


def check_clash(case: VariableCase) -> VariableDiagnostic | None:
    """A setting that does not go with the cluster's network."""
    fabric = case.context.fabric
    if not fabric or case.value is None or case.context.simulated:
        return None
    if case.name == "NCCL_NET":
        return _net(case, fabric)
    for row in CLASHES:
        if fabric in row.fabrics and re.fullmatch(row.name, case.name):
            if row.value and not re.fullmatch(row.value, case.text, re.IGNORECASE):
                continue
            says = row.says.format(fabric=_CALLED.get(fabric, fabric))
            return VariableDiagnostic(
                "J316", f"{case.format_assignment} {says}", row.hint, row.severity
            )
    return None


def _net(case: VariableCase, fabric: str) -> VariableDiagnostic | None:
    at_home = _NETS.get(case.text.lower())
    if at_home is None or fabric in at_home:
        return None
    message = f"{case.format_assignment}, but the network is {_CALLED.get(fabric, fabric)}"
    lame = case.text.lower() == "socket"
    more = (
        ": NCCL falls back to slow TCP" if lame else ": NCCL does not find that network and fails"
    )
    mild: Severity = "note" if lame and fabric not in RDMA | _PLUGGED else "warning"
    return VariableDiagnostic(
        "J316", message + more, "remove it: jobgen sets what the network needs", mild
    )


def check_loopback(case: VariableCase) -> VariableDiagnostic | None:
    """Several nodes that are told to talk over the loopback of one."""
    if not re.fullmatch("(NCCL|GLOO|TP)_SOCKET_IFNAME|NCCL_OOB_NET_IFNAME", case.name):
        return None
    names = case.text.lstrip("=").split(",")
    if case.context.simulated or not case.text or any(n not in {"lo", "lo0"} for n in names):
        return None
    if (case.context.nodes or 1) < 2:
        return None
    written, nodes = case.format_assignment, case.context.nodes
    message = f"{written}: {nodes} nodes cannot reach each other over loopback"
    return VariableDiagnostic("J316", message, "set the interface that connects the nodes", "error")


def check_peer_access(case: VariableCase) -> VariableDiagnostic | None:
    """Peer access switched off on a node whose GPUs are joined by NVLink."""
    off = (case.name == "NCCL_P2P_DISABLE" and case.on) or (
        case.name == "NCCL_P2P_LEVEL" and case.text.upper() in {"LOC", "0"}
    )
    if not off or case.context.intra not in _NVLINKED | {"infinity-fabric"}:
        return None
    link = {"infinity-fabric": "Infinity Fabric"}.get(case.context.intra, "NVLink")
    message = f"{case.format_assignment} disables {link}: data is copied through host memory"
    return VariableDiagnostic("J316", message, "remove it: it is for GPUs without peer access")


def check_devices(case: VariableCase) -> VariableDiagnostic | None:
    """GPUs chosen by hand on a node where Slurm hands them out."""
    if case.name not in {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"}:
        return None
    if not case.text or case.context.kind == "cluster":
        return None
    if case.text in {"-1", "NoDevFiles"}:
        return None  # the program is to see no GPU
    chosen = case.text.split(",")
    ranks = case.context.ranks or case.context.gpus
    if ranks is not None and len(chosen) < ranks:
        left = count(len(chosen), "GPU")
        message = f"{case.format_assignment} leaves {left} for the {ranks} ranks of a node"
        return VariableDiagnostic(
            "J322", message, "list one GPU per rank, or remove it: Slurm sets it"
        )
    whole = case.context.gpus in {None, len(chosen)}
    if whole and chosen == [str(index) for index in range(len(chosen))]:
        return VariableDiagnostic(
            "J322", f"{case.name} is set by Slurm for each step", "remove it", "note"
        )
    return None
