"""A cluster as its profile describes it: facts only, never choices."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, get_args

from jobgen.model.container import Container
from jobgen.model.fields import (
    ENV_NAME,
    ENVIRONMENT,
    LINE,
    LINES,
    NAME,
    NUMBER,
    RELEASE,
    REMOTE,
    SCALAR,
    SIZE,
    TIME,
    WORDS,
    YES,
    env_value,
    line,
    matching,
    one_of,
    split_extra,
    suggest,
    text,
    whole,
)
from jobgen.model.form import Check, Form, each, form, key, refuse, table
from jobgen.model.job import OPTIONS
from jobgen.model.units import Release, Walltime, clip

Fabric = Literal[
    "infiniband", "roce", "ethernet", "efa", "slingshot", "tcpx", "tcpxo", "gib", "none"
]
FABRICS: tuple[Fabric, ...] = get_args(Fabric)
INTRA = ("nvswitch", "nvlink", "infinity-fabric", "pcie")
AUTH = ("agent", "key", "keyboard-interactive")
GPU_REQUESTS = ("gpus-per-node", "gres", "gres-typed", "none")

# Compiled when a profile has such a key: most have few of them, and every start would pay.
_HOST = r"[A-Za-z0-9_][A-Za-z0-9._:-]{0,254}"
_USER = r"[A-Za-z_][A-Za-z0-9._@\\-]{0,63}"
_FINGERPRINT = r"SHA256:[A-Za-z0-9+/]{43}=?"
_RELEASE = r"([0-9]{2}\.[0-9]{2})(\.[0-9]{1,2})?"
_HCA = r"[\^=]{0,2}[A-Za-z0-9_]+(:[0-9]+)?(,[A-Za-z0-9_]+(:[0-9]+)?)*"
_RANGE = r"(\d{1,3}\.){3}\d{1,3}/([12]?\d|3[0-2])|[0-9A-Fa-f]*:[0-9A-Fa-f:]{1,38}/\d{1,3}"
_IFNAME = r"[\^=]?[A-Za-z0-9_.@-]+(,[A-Za-z0-9_.@-]+)*"


def host(value: object) -> str:
    """A host name, an address, or an alias of ~/.ssh/config; never an option of ssh."""
    word = line(value)
    if not re.fullmatch(_HOST, word):
        at = re.fullmatch(r"([\w.-]+)@([\w.-]+)", word)
        hint = f"write host: {at[2]} and user: {at[1]}" if at else "such as login.example.org"
        raise refuse("J171", f"'{clip(word)}' is not a host", hint)
    return word


def user(value: object) -> str:
    """A login name."""
    word = line(value)
    if not re.fullmatch(_USER, word):
        raise refuse(
            "J171", f"'{clip(word)}' is not a login name", "leave it out to use ~/.ssh/config's"
        )
    return word


def fingerprint(value: object) -> str:
    """The fingerprint of a host key, as ``ssh-keygen -l`` prints it."""
    word = line(value)
    if not re.fullmatch(_FINGERPRINT, word):
        hint = "SHA256: and 43 characters, as ssh-keygen -lf prints them"
        raise refuse("J173", f"'{clip(word)}' is not a fingerprint of a host key", hint)
    return word.rstrip("=")


UNKNOWN = "unknown"
"""What `cluster add` writes for a GPU or a fabric that nobody has looked at yet."""


def gpu(value: object) -> str | None:
    """A GPU of the catalogue, by its name or one of its other names; None where it is unknown."""
    from jobgen.data import gpus

    word = text(value)
    if word == UNKNOWN:
        return None
    known = gpus()
    found = next((g.name for g in known.values() if word in (g.name, *g.aliases)), None)
    if found is None:
        family = [n for n in known if n.lower().startswith(word.lower()[:8])] or list(known)
        few = ", ".join(family[:6])
        hint = suggest(word, list(known)) or f"known: {few}; all: jobgen schema cluster"
        raise refuse("J176", f"unknown GPU '{clip(word)}'", hint)
    return found


def release(value: object) -> str:
    """A release of Slurm, its year and month."""
    match = re.fullmatch(_RELEASE, text(value))
    if not match:
        message = f"'{clip(text(value))}' is not a release of Slurm"
        raise refuse("J179", message, "such as 22.05 or 24.11")
    return match.group(1)


class Ssh(Form):
    """How to get to the login node. Host keys are always verified."""

    host: str = key(
        Check(host, {"type": "string"}),
        doc="The login node: a name, an address, or an alias of ~/.ssh/config.",
    )
    user: str = key(
        Check(user, {"type": "string"}),
        default="",
        doc="The login name; from ~/.ssh/config by default.",
    )
    port: int | None = key(
        whole(1, 65535), default=None, doc="The port; from ~/.ssh/config by default."
    )
    auth: tuple[str, ...] = key(
        each(one_of("way to log in", AUTH)),
        default=("agent", "key"),
        doc="Ways to log in that are tried, in order: agent, key, keyboard-interactive.",
    )
    backend: Literal["paramiko", "openssh"] = key(
        one_of("backend", ("paramiko", "openssh")),
        default="paramiko",
        doc="openssh runs the ssh program: for two-factor logins.",
    )
    fingerprint: str = key(
        Check(fingerprint, {"type": "string"}),
        default="",
        doc="The host key's SHA256 fingerprint, where the profile pins it.",
    )


class Paths(Form):
    """Directories on the cluster."""

    root: str = key(
        REMOTE,
        doc="Where run directories go: absolute, seen by login and compute nodes. $NAME is "
        "expanded there.",
    )


class Nodes(Form):
    """The nodes, which are alike."""

    count: int = key(whole(1, 65_536), doc="Number of nodes.")
    gpus_per_node: int = key(whole(0, 1024), default=0, doc="GPUs on each node.")
    gpu: str | None = key(
        Check(gpu, {"anyOf": [{"form": "gpu"}, {"const": UNKNOWN}]}),
        default=None,
        doc="The GPU, a name of the GPU catalogue; unknown is an answer too.",
    )
    cpus: int | None = key(
        whole(1, 65_536), default=None, doc="CPU cores of each node, as Slurm counts them."
    )
    mem: int | None = key(SIZE, default=None, doc="Memory of each node, such as 1TiB.")
    intra: Literal["nvswitch", "nvlink", "infinity-fabric", "pcie"] | None = key(
        one_of("link", INTRA, aliases={"xgmi": "infinity-fabric"}),
        default=None,
        doc="What joins the GPUs of a node: nvswitch, nvlink, infinity-fabric (AMD) or pcie.",
    )
    peer_access: bool | None = key(
        YES,
        default=None,
        doc="false: its GPUs cannot read each other's memory, and the driver may not know it.",
    )
    nvlink_nodes: int | None = key(
        whole(2, 1024),
        default=None,
        doc="Nodes whose GPUs share one NVLink domain, 18 in a GB200 NVL72 rack.",
    )


class Reasoned(Form):
    """A value, and why it has to be so."""

    value: str = key(Check(env_value, SCALAR), doc="The variable's value.")
    why: str = key(LINE, default="", doc="Why this network needs it, in a sentence.")
    source: str = key(LINE, default="", doc="Who says so: an address, or a repository's file.")


class Network(Form):
    """The network between nodes."""

    fabric: Fabric = key(
        one_of("fabric", FABRICS, aliases={"ib": "infiniband", UNKNOWN: "none"}),
        default="none",
        doc="The kind of network that carries the training traffic.",
    )
    nics: int | None = key(
        whole(1, 64), default=None, doc="Network cards of each node that carry it."
    )
    nic_gbps: int | None = key(
        whole(1, 10_000), default=None, doc="Gigabits a second of each card, one way."
    )
    ib_hca: str | None = key(
        matching("J178", _HCA, "a list of HCAs", "mlx5_0,mlx5_1"),
        default=None,
        doc="The cards by name, or a prefix of their names: NCCL_IB_HCA.",
    )
    socket_ifname: str | None = key(
        matching("J178", _IFNAME, "a list of interfaces", "ib0"),
        default=None,
        doc="The interface for bootstrap and TCP: NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME.",
    )
    data_ifname: str | None = key(
        matching("J178", _IFNAME, "a list of interfaces", "enp6s0,enp12s0"),
        default=None,
        doc="TCPX and TCPXO: the interfaces that carry the training traffic.",
    )
    gid_index: int | None = key(
        whole(0, 255), default=None, doc="RoCE with NCCL before 2.21 only: NCCL_IB_GID_INDEX."
    )
    traffic_class: int | None = key(
        whole(0, 255), default=None, doc="RoCE: the lossless traffic class, NCCL_IB_TC."
    )
    fifo_traffic_class: int | None = key(
        whole(0, 255),
        default=None,
        doc="RoCE, NCCL from 2.22.3: the class of its small control messages, NCCL_IB_FIFO_TC.",
    )
    addr_range: str | None = key(
        matching("J178", _RANGE, "a range of addresses", "10.20.0.0/16"),
        default=None,
        doc="RoCE, NCCL from 2.21: the addresses of the training network, NCCL_IB_ADDR_RANGE.",
    )
    internet: bool | None = key(YES, default=None, doc="Whether compute nodes reach the internet.")
    env: Mapping[str, Reasoned] = key(
        table(ENV_NAME, form(Reasoned, short="value", shortly=SCALAR)),
        default={},
        doc="Variables that this network needs beside the usual ones: NAME: value, or NAME: "
        "{value, why, source}.",
    )
    mounts: tuple[str, ...] = key(
        each(REMOTE),
        default=(),
        doc="Paths of the node that this network needs inside of a container too.",
    )


def _versions(program: str) -> Any:
    return key(RELEASE, default=None, doc=f"The release of {program}.")


class Versions(Form):
    """What is installed there, where it matters: only what is written here is relied on."""

    nccl: Release | None = _versions("NCCL that the programs use")
    rccl: Release | None = _versions("RCCL, on AMD GPUs")
    cuda: Release | None = _versions("CUDA")
    driver: Release | None = _versions("the GPUs' driver")
    libfabric: Release | None = _versions("libfabric")
    ofi_nccl: Release | None = _versions("the plug-in aws-ofi-nccl")
    torch: Release | None = _versions("PyTorch")


class Defaults(Form):
    """What every job on this cluster gets, unless it says otherwise."""

    slurm: Mapping[str, str | None] = key(
        OPTIONS, default={}, doc="Options of sbatch, such as partition and account."
    )
    slurm_extra: tuple[str, ...] = key(
        WORDS, default=(), doc="slurm.extra, word by word.", hidden=True
    )
    setup: tuple[str, ...] = key(
        LINES, default=(), doc="Lines of bash run before the job's own setup."
    )
    env: Mapping[str, str] = key(ENVIRONMENT, default={}, doc="Environment of every rank.")
    container: Container | None = key(
        form(Container, short="image"), default=None, doc="The container."
    )

    @classmethod
    def spread(cls, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """``slurm: {extra: …}`` is two values."""
        return split_extra(data)


class Limits(Form):
    """The most that one job may ask for; always in force."""

    time: Walltime | None = key(TIME, default=None, doc="The longest time limit.")
    nodes: int | None = key(whole(1, 65_536), default=None, doc="The most nodes.")


class Confirm(Form):
    """When ``submit`` asks first."""

    gpu_hours: float | None = key(
        NUMBER, default=None, doc="Jobs that may use more GPU-hours than this."
    )


class Price(Form):
    """What it costs."""

    gpu_hour: float = key(NUMBER, doc="The price of a GPU for an hour.")
    bought: float | None = key(
        NUMBER,
        default=None,
        doc="What a GPU with its share of the node cost to buy, where the cluster is your own: "
        "gpu_hour is then what running it costs.",
    )
    currency: str = key(
        matching("J179", "[A-Z]{3}", "a currency", "EUR"),
        default="EUR",
        doc="Its currency, three capital letters.",
    )


class ClusterProfile(Form):
    """A cluster: how to get in, what its nodes and network are, what its site asks for."""

    name: str = key(NAME, doc="The cluster's name.")
    scheduler: Literal["slurm", "local"] = key(
        one_of("scheduler", ("slurm", "local")),
        doc="slurm; or local, which runs jobs detached on this machine.",
    )
    paths: Paths = key(form(Paths), doc="Directories on the cluster.")
    nodes: Nodes = key(form(Nodes), doc="The nodes: count, gpus_per_node, gpu, cpus, mem.")
    docs: str | None = key(LINE, default=None, doc="The address of the site's documentation.")
    extends: str | None = key(
        NAME, default=None, doc="Another profile, whose keys this one completes."
    )
    ssh: Ssh | None = key(
        form(Ssh, short="host"),
        default=None,
        doc="How to get to the login node; left out, sbatch is on this machine.",
    )
    procs_per_node: int | None = key(
        whole(1, 1024), default=None, doc="Ranks on each node where nodes have no GPUs."
    )
    network: Network = key(
        form(Network, short="fabric", shortly={"enum": list(FABRICS)}),
        default=Network(),
        doc="The network between nodes.",
    )
    versions: Versions = key(
        form(Versions), default=Versions(), doc="Releases of what is installed on the nodes."
    )
    gpu_request: Literal["gpus-per-node", "gres", "gres-typed", "none"] = key(
        one_of("GPU request", GPU_REQUESTS),
        default="gpus-per-node",
        doc="How this site wants GPUs asked for: gpus-per-node, gres, gres-typed or none.",
    )
    gpu_type: str | None = key(
        matching("J179", "[A-Za-z0-9][A-Za-z0-9._-]*", "a GPU type", "a100"),
        default=None,
        doc="The type in --gres=gpu:TYPE:N, for gres-typed.",
    )
    defaults: Defaults = key(form(Defaults), default=Defaults(), doc="What every job here gets.")
    limits: Limits = key(form(Limits), default=Limits(), doc="The most that one job may ask for.")
    accounting: Literal["auto", "sacct", "none"] = key(
        one_of("accounting", ("auto", "sacct", "none")),
        default="auto",
        doc="Whether sacct can be asked about ended jobs: auto, sacct or none.",
    )
    slurm_version: str | None = key(
        Check(release, {"type": ["string", "number"]}),
        default=None,
        doc="Slurm's release, such as 22.05, where something newer may be used.",
    )
    rdzv_host_suffix: str = key(
        matching("J179", "[A-Za-z0-9.-]{1,200}", "a suffix", "-ib"),
        default="",
        doc="Added to the head node's name for the rendezvous, such as -ib.",
    )
    confirm: Confirm = key(form(Confirm), default=Confirm(), doc="When submit asks first.")
    price: Price | None = key(form(Price), default=None, doc="What it costs.")
