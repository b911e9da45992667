"""A cluster as its profile describes it: facts only, never choices."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from jobgen.model.container import Container
from jobgen.model.fields import (
    HOST,
    USER,
    Environment,
    Line,
    Lines,
    Model,
    Name,
    Number,
    RemotePath,
    Size,
    Time,
    Words,
    line,
    one_of,
    split_extra,
    suggest,
    text,
    whole,
    words,
    wrong,
    yes,
)
from jobgen.model.units import clip

FABRICS = ("infiniband", "roce", "ethernet", "efa", "none")
LATER_FABRICS = ("tcpx", "tcpxo", "gib")
AUTH = ("agent", "key", "keyboard-interactive")
GPU_REQUESTS = ("gpus-per-node", "gres", "gres-typed", "none")

_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}=?", re.ASCII)
_RELEASE = re.compile(r"(\d\d\.\d\d)(\.\d{1,2})?", re.ASCII)
_HCA = re.compile(r"[\^=]{0,2}[A-Za-z0-9_]+(:\d+)?(,[A-Za-z0-9_]+(:\d+)?)*", re.ASCII)
_IFNAME = re.compile(r"[\^=]?[A-Za-z0-9_.@-]+(,[A-Za-z0-9_.@-]+)*", re.ASCII)


def host(value: object) -> str:
    """A host name, an address, or an alias of ~/.ssh/config; never an option of ssh."""
    word = line(value)
    if not HOST.fullmatch(word):
        at = re.fullmatch(r"([\w.-]+)@([\w.-]+)", word)
        hint = f"write host: {at[2]} and user: {at[1]}" if at else "such as login.example.org"
        raise wrong("J171", f"'{clip(word)}' is not a host", hint)
    return word


def user(value: object) -> str:
    """A login name."""
    word = line(value)
    if not USER.fullmatch(word):
        raise wrong(
            "J171", f"'{clip(word)}' is not a login name", "leave it out to use ~/.ssh/config's"
        )
    return word


def fingerprint(value: object) -> str:
    """The fingerprint of a host key, as ``ssh-keygen -l`` prints it."""
    word = line(value)
    if not _FINGERPRINT.fullmatch(word):
        hint = "SHA256: and 43 characters, as ssh-keygen -lf prints them"
        raise wrong("J173", f"'{clip(word)}' is not a fingerprint of a host key", hint)
    return word.rstrip("=")


def gpu(value: object) -> str:
    """A GPU of the catalogue, by its name or one of its other names."""
    from jobgen.data import gpus

    word = text(value)
    known = gpus()
    found = next((g.name for g in known.values() if word in (g.name, *g.aliases)), None)
    if found is None:
        hint = suggest(word, list(known)) or f"known: {', '.join(known)}"
        raise wrong("J176", f"unknown GPU '{clip(word)}'", hint)
    return found


def matching(code: str, pattern: re.Pattern[str], what: str, example: str) -> BeforeValidator:
    """A check for one word of this pattern."""

    def check(value: object) -> str:
        word = line(value)
        if not pattern.fullmatch(word):
            raise wrong(code, f"'{clip(word)}' is not {what}", f"such as {example}")
        return word

    return BeforeValidator(check)


Host = Annotated[str, BeforeValidator(host)]
User = Annotated[str, BeforeValidator(user)]
Fingerprint = Annotated[str, BeforeValidator(fingerprint)]
GpuName = Annotated[str, BeforeValidator(gpu)]


class Ssh(Model):
    """How to get to the login node. Host keys are always verified."""

    host: Host = Field(
        description="The login node: a name, an address, or an alias of ~/.ssh/config."
    )
    user: User = Field("", description="The login name; from ~/.ssh/config by default.")
    port: Annotated[int, BeforeValidator(whole(1, 65535))] | None = Field(
        None, description="The port; from ~/.ssh/config by default."
    )
    auth: Annotated[
        tuple[str, ...],
        BeforeValidator(words(one_of("way to log in", AUTH))),
        WithJsonSchema({"type": "array", "items": {"enum": list(AUTH)}}),
    ] = Field(("agent", "key"), description="Ways to log in that are tried, in order.")
    backend: Annotated[
        Literal["paramiko", "openssh"], BeforeValidator(one_of("backend", ("paramiko", "openssh")))
    ] = Field("paramiko", description="openssh runs the ssh program: for two-factor logins.")
    fingerprint: Fingerprint = Field(
        "", description="The host key's SHA256 fingerprint, where the profile pins it."
    )


class Paths(Model):
    """Directories on the cluster."""

    root: RemotePath = Field(
        description="Where run directories go: absolute, seen by login and compute nodes. $NAME is "
        "expanded there."
    )


class Nodes(Model):
    """The nodes, which are alike."""

    count: Annotated[int, BeforeValidator(whole(1, 65_536))] = Field(description="Number of nodes.")
    gpus_per_node: Annotated[int, BeforeValidator(whole(0, 1024))] = Field(
        0, description="GPUs on each node."
    )
    gpu: GpuName | None = Field(None, description="The GPU, a name of the GPU catalogue.")
    cpus: Annotated[int, BeforeValidator(whole(1, 65_536))] | None = Field(
        None, description="CPU cores of each node, as Slurm counts them."
    )
    mem: Size | None = Field(None, description="Memory of each node, such as 1TiB.")
    intra: (
        Annotated[
            Literal["nvswitch", "nvlink", "pcie"],
            BeforeValidator(one_of("link", ("nvswitch", "nvlink", "pcie"))),
        ]
        | None
    ) = Field(None, description="What joins the GPUs of a node.")


class Network(Model):
    """The network between nodes."""

    fabric: Annotated[
        Literal["infiniband", "roce", "ethernet", "efa", "none"],
        BeforeValidator(
            one_of("fabric", FABRICS, aliases={"ib": "infiniband"}, later=LATER_FABRICS)
        ),
    ] = Field("none", description="The kind of network that carries the training traffic.")
    nics: Annotated[int, BeforeValidator(whole(1, 64))] | None = Field(
        None, description="Network cards of each node that carry it."
    )
    nic_gbps: Annotated[int, BeforeValidator(whole(1, 10_000))] | None = Field(
        None, description="Gigabits a second of each card, one way."
    )
    ib_hca: Annotated[str, matching("J178", _HCA, "a list of HCAs", "mlx5_0,mlx5_1")] | None = (
        Field(None, description="The cards by name, or a prefix of their names: NCCL_IB_HCA.")
    )
    socket_ifname: (
        Annotated[str, matching("J178", _IFNAME, "a list of interfaces", "ib0")] | None
    ) = Field(
        None,
        description="The interface for bootstrap and TCP: NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME.",
    )
    gid_index: Annotated[int, BeforeValidator(whole(0, 255))] | None = Field(
        None, description="RoCE with NCCL before 2.21 only: NCCL_IB_GID_INDEX."
    )
    traffic_class: Annotated[int, BeforeValidator(whole(0, 255))] | None = Field(
        None, description="RoCE: the lossless traffic class, NCCL_IB_TC."
    )
    internet: Annotated[bool, BeforeValidator(yes)] | None = Field(
        None, description="Whether compute nodes reach the internet."
    )
    env: Environment = Field(
        default_factory=dict, description="Variables that this network needs beside the usual ones."
    )


class Defaults(Model):
    """What every job on this cluster gets, unless it says otherwise."""

    slurm: Mapping[str, str | None] = Field(
        default_factory=dict,
        description="Options of sbatch, such as partition and account.",
        json_schema_extra={"form": "slurm"},
    )
    slurm_extra: Words = Field(
        (), description="slurm.extra, word by word.", json_schema_extra={"hidden": True}
    )
    setup: Lines = Field((), description="Lines of bash run before the job's own setup.")
    env: Environment = Field(default_factory=dict, description="Environment of every rank.")
    container: Container | None = Field(None, description="The container.")

    @model_validator(mode="before")
    @classmethod
    def _spread(cls, data: Any) -> Any:
        """``slurm: {extra: …}`` is two values."""
        return split_extra(data)


class Limits(Model):
    """The most that one job may ask for; always in force."""

    time: Time | None = Field(None, description="The longest time limit.")
    nodes: Annotated[int, BeforeValidator(whole(1, 65_536))] | None = Field(
        None, description="The most nodes."
    )


class Confirm(Model):
    """When ``submit`` asks first."""

    gpu_hours: Number | None = Field(
        None, description="Jobs that may use more GPU-hours than this."
    )


class Price(Model):
    """What it costs."""

    gpu_hour: Number = Field(description="The price of a GPU for an hour.")
    currency: Annotated[str, matching("J179", re.compile(r"[A-Z]{3}"), "a currency", "EUR")] = (
        Field("EUR", description="Its currency, three capital letters.")
    )


class ClusterProfile(Model):
    """A cluster: how to get in, what its nodes and network are, what its site asks for."""

    name: Name = Field(description="The cluster's name.")
    scheduler: Annotated[
        Literal["slurm", "local"], BeforeValidator(one_of("scheduler", ("slurm", "local")))
    ] = Field(description="slurm; or local, which runs jobs detached on this machine.")
    paths: Paths = Field(description="Directories on the cluster.")
    nodes: Nodes = Field(description="The nodes.")
    docs: Line | None = Field(None, description="The address of the site's documentation.")
    extends: Name | None = Field(
        None, description="Another profile, whose keys this one completes."
    )
    ssh: Ssh | None = Field(
        None, description="How to get to the login node; left out, sbatch is on this machine."
    )
    procs_per_node: Annotated[int, BeforeValidator(whole(1, 1024))] | None = Field(
        None, description="Ranks on each node where nodes have no GPUs."
    )
    network: Network = Field(Network(), description="The network between nodes.")
    gpu_request: Annotated[
        Literal["gpus-per-node", "gres", "gres-typed", "none"],
        BeforeValidator(one_of("GPU request", GPU_REQUESTS)),
    ] = Field("gpus-per-node", description="How this site wants GPUs asked for.")
    gpu_type: (
        Annotated[
            str,
            matching(
                "J179",
                re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII),
                "a GPU type",
                "a100",
            ),
        ]
        | None
    ) = Field(None, description="The type in --gres=gpu:TYPE:N, for gres-typed.")
    defaults: Defaults = Field(Defaults(), description="What every job here gets.")
    limits: Limits = Field(Limits(), description="The most that one job may ask for.")
    accounting: Annotated[
        Literal["auto", "sacct", "none"],
        BeforeValidator(one_of("accounting", ("auto", "sacct", "none"))),
    ] = Field("auto", description="Whether sacct can be asked about ended jobs.")
    slurm_version: Annotated[str, BeforeValidator(lambda v: _release(v))] | None = Field(
        None, description="Slurm's release, such as 22.05, where something newer may be used."
    )
    rdzv_host_suffix: Annotated[
        str, matching("J179", re.compile(r"[A-Za-z0-9.-]{1,200}", re.ASCII), "a suffix", "-ib")
    ] = Field("", description="Added to the head node's name for the rendezvous, such as -ib.")
    confirm: Confirm = Field(Confirm(), description="When submit asks first.")
    price: Price | None = Field(None, description="What it costs.")


def _release(value: object) -> str:
    match = _RELEASE.fullmatch(text(value))
    if not match:
        raise wrong(
            "J179", f"'{clip(text(value))}' is not a release of Slurm", "such as 22.05 or 24.11"
        )
    return match.group(1)
