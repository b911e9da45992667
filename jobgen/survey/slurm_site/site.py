"""A site as its login host describes it: all questions in one table, all answers in one value."""

from __future__ import annotations

import re
from collections.abc import Mapping

from jobgen.named_tuple import NamedTuple
from jobgen.shell import Command, Result, split_lines
from jobgen.survey.slurm_site import accounts, sinfo
from jobgen.survey.slurm_site.accounts import Association, Qos
from jobgen.survey.slurm_site.nodes import SlurmNode, parse_nodes
from jobgen.survey.slurm_site.partitions import Partition, parse_partitions
from jobgen.survey.slurm_site.scontrol_fields import parse_settings
from jobgen.survey.slurm_site.sinfo import NodeGroup, parse_groups

_RELEASE = re.compile(r"\b(\d{2}\.\d{2}(?:\.\d{1,3})?)\b", re.ASCII)
ABSENT = frozenset({126, 127})
"""Exit codes of a command that is not there, or not to be run."""
_DISABLED = "accounting storage is disabled"


class SlurmSite(NamedTuple):
    """What the commands of Slurm told on the login host."""

    version: str = ""
    """Slurm's release, ``22.05.8``; empty where nothing told it."""
    settings: Mapping[str, str] = {}
    """``scontrol show config``; empty where it did not answer."""
    nodes: tuple[SlurmNode, ...] = ()
    partitions: tuple[Partition, ...] = ()
    groups: tuple[NodeGroup, ...] = ()
    associations: tuple[Association, ...] = ()
    qos: tuple[Qos, ...] = ()
    default_account: str = ""
    sacct: bool | None = None
    """Whether sacct answers; None where that cannot be told."""
    silent: Mapping[str, str] = {}
    """Questions that were not answered: the command → what it said instead."""


def list_commands(user: str) -> Mapping[str, Command]:
    """The questions by name; ``user`` is the login name on the other side."""
    show = ("scontrol", "--oneliner", "--all", "show")
    ask = ("sacctmgr", "--noheader", "--parsable2", "--readonly", "show")
    return {
        "version": Command.of("sinfo", "--version"),
        "config": Command.of("scontrol", "show", "config"),
        "sinfo": Command.of("sinfo", "--noheader", "--exact", f"--format={sinfo.FORMAT}"),
        "node": Command((*show, "node")),
        "partition": Command((*show, "partition")),
        "assoc": Command((*ask, "assoc", f"user={user}", f"format={accounts.ASSOCIATION}")),
        "user": Command((*ask, "user", user, f"format={accounts.USER}")),
        "qos": Command((*ask, "qos", f"format={accounts.QOS}")),
        "sacct": Command.of(
            *("sacct", "--allocations", "--noheader", "--parsable2"),
            *("--starttime=now-1hours", "--format=JobID"),
        ),
    }


def read_site(answers: Mapping[str, Result], user: str) -> SlurmSite:
    """The answers to ``list_commands(user)`` as a value; what was not answered is in ``silent``."""
    asked = list_commands(user)
    text = {name: _text(answers.get(name, Result(255))) for name in asked}
    config = parse_settings(text["config"])
    told = config.get("SLURM_VERSION", "") or text["version"]
    release = _RELEASE.search(told)
    silent = {str(asked[name]): why for name in asked if (why := _complaint(answers.get(name)))}
    return SlurmSite(
        version=release[1] if release else "",
        settings=config,
        nodes=parse_nodes(text["node"]),
        partitions=parse_partitions(text["partition"]),
        groups=parse_groups(text["sinfo"]),
        associations=_here(text["assoc"], config.get("ClusterName", "")),
        qos=accounts.parse_qos(text["qos"]),
        default_account=accounts.parse_default_account(text["user"], user),
        sacct=_works(answers.get("sacct")),
        silent=silent,
    )


def _here(text: str, cluster: str) -> tuple[Association, ...]:
    """The associations of this cluster: a database can hold several. Its names are lower case."""
    found = accounts.parse_associations(text)
    return tuple(
        one for one in found if not cluster or one.cluster.lower() in ("", cluster.lower())
    )


def _text(result: Result) -> str:
    return result.text if result.code == 0 else ""


def _works(result: Result | None) -> bool | None:
    """Whether sacct answered, and not that accounting is off."""
    if result is None:
        return None
    said = (result.error_text + result.text).lower()
    if _DISABLED in said:
        return False
    return True if result.code == 0 else None


def _complaint(result: Result | None) -> str:
    """The last line that a command said instead of an answer; empty where it answered."""
    if result is None:
        return "was not asked"
    if result.code == 0:
        return ""
    if result.code == 124:
        return "did not answer in 15 s"
    if result.code in ABSENT:
        return "is not there"
    lines = split_lines((result.error_text + result.text).strip())
    return lines[-1].strip()[:200] if lines else f"ended with exit code {result.code}"
