"""A cluster as its profile describes it: facts only, never choices."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from jobgen.model.container import Container
from jobgen.model.fields import (
    ENVIRONMENT,
    LINE,
    LINES,
    NAME,
    NUMBER,
    REMOTE,
    TIME,
    WORDS,
    check_choice,
    check_integer,
    check_line,
    check_pattern,
    check_text,
    split_extra,
)
from jobgen.model.form import Check, Form, check_form, check_list, key, refuse
from jobgen.model.job_checks import OPTIONS
from jobgen.model.network import FABRICS, Network
from jobgen.model.node_hardware import Nodes, Versions
from jobgen.model.units import Walltime, clip

AUTH = ("agent", "key", "keyboard-interactive")
REFUSALS = ("exclusive", "mem")
GPU_REQUESTS = ("gpus-per-node", "gres", "gres-typed", "none")

# Compiled when a profile has such a key: most have few of them, and every start would pay.
_HOST = r"[A-Za-z0-9_][A-Za-z0-9._:-]{0,254}"
_USER = r"[A-Za-z_][A-Za-z0-9._@\\-]{0,63}"
_FINGERPRINT = r"SHA256:[A-Za-z0-9+/]{43}=?"
_RELEASE = r"([0-9]{2}\.[0-9]{2})(\.[0-9]{1,2})?"


def check_host(value: object) -> str:
    """A host name, an address, or an alias of ~/.ssh/config; never an option of ssh."""
    word = check_line(value)
    if not re.fullmatch(_HOST, word):
        at = re.fullmatch(r"([\w.-]+)@([\w.-]+)", word)
        hint = f"set host: {at[2]} and user: {at[1]}" if at else "for example login.example.org"
        raise refuse("J171", f"'{clip(word)}' is not a host", hint)
    return word


def check_user(value: object) -> str:
    """A login name."""
    word = check_line(value)
    if not re.fullmatch(_USER, word):
        raise refuse(
            "J171",
            f"'{clip(word)}' is not a login name",
            "leave it out to use the one in ~/.ssh/config",
        )
    return word


def check_fingerprint(value: object) -> str:
    """The fingerprint of a host key, as ``ssh-keygen -l`` prints it."""
    word = check_line(value)
    if not re.fullmatch(_FINGERPRINT, word):
        hint = "expected SHA256: and 43 characters, as printed by ssh-keygen -lf"
        raise refuse("J173", f"'{clip(word)}' is not a host key fingerprint", hint)
    return word.rstrip("=")


def check_release(value: object) -> str:
    """A release of Slurm, its year and month."""
    match = re.fullmatch(_RELEASE, check_text(value))
    if not match:
        message = f"'{clip(check_text(value))}' is not a Slurm release"
        raise refuse("J179", message, "for example 22.05 or 24.11")
    return match.group(1)


class Ssh(Form):
    """How to get to the login node. Host keys are always verified."""

    host: str = key(
        Check(check_host, {"type": "string"}),
        doc="Login node: a name, an address, or an alias from ~/.ssh/config.",
        example="login.example.org",
    )
    user: str = key(
        Check(check_user, {"type": "string"}),
        default="",
        doc="Login name; default: from ~/.ssh/config.",
    )
    port: int | None = key(
        check_integer(1, 65535), default=None, doc="Port; default: from ~/.ssh/config."
    )
    auth: tuple[str, ...] = key(
        check_list(check_choice("login method", AUTH)),
        default=("agent", "key"),
        doc="Login methods to try, in order: agent, key, keyboard-interactive.",
    )
    backend: Literal["paramiko", "openssh"] = key(
        check_choice("backend", ("paramiko", "openssh")),
        default="paramiko",
        doc="openssh runs the ssh program, for two-factor logins.",
    )
    fingerprint: str = key(
        Check(check_fingerprint, {"type": "string"}),
        default="",
        doc="SHA256 fingerprint of the host key, to pin it.",
    )


class Paths(Form):
    """Directories on the cluster."""

    root: str = key(
        REMOTE,
        doc=(
            "Parent directory of run directories: absolute, visible from login and compute "
            "nodes. $NAME is expanded on the cluster."
        ),
        example="/scratch/$USER/jobgen",
    )


class Defaults(Form):
    """What every job on this cluster gets, unless it says otherwise."""

    slurm: Mapping[str, str | None] = key(
        OPTIONS, default={}, doc="sbatch options, such as partition and account."
    )
    slurm_extra: tuple[str, ...] = key(WORDS, default=(), doc="Words of slurm.extra.", hidden=True)
    setup: tuple[str, ...] = key(
        LINES, default=(), doc="Lines of bash that run before the job's own setup."
    )
    env: Mapping[str, str] = key(ENVIRONMENT, default={}, doc="Environment of every rank.")
    container: Container | None = key(
        check_form(Container, short="image"), default=None, doc="Container settings."
    )

    @classmethod
    def spread(cls, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """``slurm: {extra: …}`` is two values."""
        return split_extra(data)


class Limits(Form):
    """The most that one job may ask for, always in force; the time of one that sets none."""

    time: Walltime | None = key(TIME, default=None, doc="Maximum time limit.")
    default_time: Walltime | None = key(
        TIME,
        default=None,
        doc="Time limit of a job that sets none: DefaultTime of the partition.",
        example="1h",
    )
    nodes: int | None = key(check_integer(1, 65_536), default=None, doc="Maximum number of nodes.")


class Confirm(Form):
    """When ``submit`` asks first."""

    gpu_hours: float | None = key(
        NUMBER,
        default=None,
        doc=(
            "Ask before submitting a job that may use more GPU-hours than this, over all its "
            "starts."
        ),
    )


class Price(Form):
    """What it costs."""

    gpu_hour: float = key(NUMBER, doc="Price of one GPU-hour.", example="1.80")
    bought: float | None = key(
        NUMBER,
        default=None,
        doc=(
            "Purchase price of one GPU with its share of the node, for a cluster of your own: "
            "gpu_hour is then the operating cost."
        ),
    )
    currency: str = key(
        check_pattern("J179", "[A-Z]{3}", "a currency", "EUR"),
        default="EUR",
        doc="Currency, three capital letters.",
    )


class ClusterProfile(Form):
    """A cluster: how to get in, what its nodes and network are, what its site asks for."""

    name: str = key(NAME, doc="Name of the cluster.", example="mycluster")
    scheduler: Literal["slurm", "local"] = key(
        check_choice("scheduler", ("slurm", "local")),
        doc="slurm; or local, which runs jobs detached on this machine.",
        example="slurm",
    )
    paths: Paths = key(
        check_form(Paths),
        doc="Directories on the cluster.",
        example="{root: /scratch/$USER/jobgen}",
    )
    nodes: Nodes = key(
        check_form(Nodes),
        doc="Compute nodes: count, gpus_per_node, gpu, cpus, mem.",
        example="{count: 2, gpus_per_node: 8, gpu: A100-SXM4-80GB}",
    )
    docs: str | None = key(LINE, default=None, doc="URL of the site's documentation.")
    extends: str | None = key(
        NAME, default=None, doc="Profile to extend: keys not set here are taken from it."
    )
    ssh: Ssh | None = key(
        check_form(Ssh, short="host"),
        default=None,
        doc="Connection to the login node; if omitted, sbatch runs on this machine.",
    )
    procs_per_node: int | None = key(
        check_integer(1, 1024), default=None, doc="Ranks per node if nodes have no GPUs."
    )
    network: Network = key(
        check_form(Network, short="fabric", shortly={"enum": list(FABRICS)}),
        default=Network(),
        doc="Network between nodes.",
    )
    versions: Versions = key(
        check_form(Versions), default=Versions(), doc="Installed software releases on the nodes."
    )
    gpu_request: Literal["gpus-per-node", "gres", "gres-typed", "none"] = key(
        check_choice("GPU request style", GPU_REQUESTS),
        default="gpus-per-node",
        doc="How this site requests GPUs: gpus-per-node, gres, gres-typed or none.",
    )
    gpu_type: str | None = key(
        check_pattern("J179", "[A-Za-z0-9][A-Za-z0-9._-]*", "a GPU type", "a100"),
        default=None,
        doc="TYPE in --gres=gpu:TYPE:N, for gres-typed.",
    )
    refuses: tuple[str, ...] = key(
        check_list(check_choice("option", REFUSALS)),
        default=(),
        doc=(
            "Options for whole nodes that this site's sbatch rejects: exclusive (--exclusive), "
            "mem (--mem=0)."
        ),
    )
    defaults: Defaults = key(
        check_form(Defaults), default=Defaults(), doc="Defaults for every job on this cluster."
    )
    limits: Limits = key(check_form(Limits), default=Limits(), doc="Limits for a single job.")
    accounting: Literal["auto", "sacct", "none"] = key(
        check_choice("accounting", ("auto", "sacct", "none")),
        default="auto",
        doc="How to query ended jobs: auto, sacct or none.",
    )
    slurm_version: str | None = key(
        Check(check_release, {"type": ["string", "number"]}),
        default=None,
        doc="Slurm release, such as 22.05; enables newer options.",
    )
    rdzv_host_suffix: str = key(
        check_pattern("J179", "[A-Za-z0-9.-]{1,200}", "a suffix", "-ib"),
        default="",
        doc="Suffix for the rendezvous host's name on the training network, such as -ib.",
    )
    confirm: Confirm = key(
        check_form(Confirm), default=Confirm(), doc="When submit asks for confirmation."
    )
    price: Price | None = key(check_form(Price), default=None, doc="Prices for cost estimates.")
