"""The network between the nodes, as a profile describes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from jobgen.model.fields import (
    ENV_NAME,
    LINE,
    REMOTE,
    SCALAR,
    YES,
    check_choice,
    check_env_value,
    check_integer,
    check_pattern,
)
from jobgen.model.form import Check, Form, check_form, check_list, check_table, key

Fabric = Literal[
    "infiniband", "roce", "ethernet", "efa", "slingshot", "tcpx", "tcpxo", "gib", "none", "unknown"
]
FABRICS: tuple[Fabric, ...] = get_args(Fabric)

# Compiled when a profile has such a key: most have few of them, and every start would pay.
_HCA = r"[\^=]{0,2}[A-Za-z0-9_]+(:[0-9]+)?(,[A-Za-z0-9_]+(:[0-9]+)?)*"
_RANGE = r"(\d{1,3}\.){3}\d{1,3}/([12]?\d|3[0-2])|[0-9A-Fa-f]*:[0-9A-Fa-f:]{1,38}/\d{1,3}"
_IFNAME = r"[\^=]?[A-Za-z0-9_.@-]+(,[A-Za-z0-9_.@-]+)*"


class Reasoned(Form):
    """A value, and why it has to be so."""

    value: str = key(Check(check_env_value, SCALAR), doc="Value of the variable.")
    why: str = key(LINE, default="", doc="Why this network needs it, in one sentence.")
    source: str = key(LINE, default="", doc="Source: a URL, or a file of a repository.")


class Network(Form):
    """The network between nodes."""

    fabric: Fabric = key(
        check_choice("fabric", FABRICS, aliases={"ib": "infiniband"}),
        default="none",
        doc=(
            "Network for training traffic; none means plain sockets, unknown lets NCCL choose "
            "and log its choice."
        ),
    )
    nics: int | None = key(
        check_integer(1, 64), default=None, doc="NICs per node for training traffic."
    )
    nic_gbps: int | None = key(
        check_integer(1, 10_000), default=None, doc="Gigabits per second of each NIC, one way."
    )
    ib_hca: str | None = key(
        check_pattern("J178", _HCA, "a list of HCAs", "mlx5_0,mlx5_1"),
        default=None,
        doc="HCAs by name, or a prefix of their names: NCCL_IB_HCA.",
    )
    socket_ifname: str | None = key(
        check_pattern("J178", _IFNAME, "a list of interfaces", "ib0"),
        default=None,
        doc="Interface for bootstrap and TCP: NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME.",
    )
    data_ifname: str | None = key(
        check_pattern("J178", _IFNAME, "a list of interfaces", "enp6s0,enp12s0"),
        default=None,
        doc="TCPX and TCPXO: interfaces for training traffic.",
    )
    gid_index: int | None = key(
        check_integer(0, 255),
        default=None,
        doc="RoCE with NCCL before 2.21 only: NCCL_IB_GID_INDEX.",
    )
    traffic_class: int | None = key(
        check_integer(0, 255), default=None, doc="RoCE: lossless traffic class, NCCL_IB_TC."
    )
    fifo_traffic_class: int | None = key(
        check_integer(0, 255),
        default=None,
        doc=(
            "RoCE, NCCL 2.22.3 and later: traffic class for small control messages, "
            "NCCL_IB_FIFO_TC."
        ),
    )
    addr_range: str | None = key(
        check_pattern("J178", _RANGE, "an address range", "10.20.0.0/16"),
        default=None,
        doc="RoCE, NCCL 2.21 and later: address range of the training network, NCCL_IB_ADDR_RANGE.",
    )
    internet: bool | None = key(
        YES,
        default=None,
        doc="Whether compute nodes have internet access; false: HF_HUB_OFFLINE=1, W&B offline.",
    )
    env: Mapping[str, Reasoned] = key(
        check_table(ENV_NAME, check_form(Reasoned, short="value", shortly=SCALAR)),
        default={},
        doc="Extra variables for this network: NAME: value, or NAME: {value, why, source}.",
    )
    mounts: tuple[str, ...] = key(
        check_list(REMOTE),
        default=(),
        doc="Paths of the node that this network needs inside containers, too.",
    )
