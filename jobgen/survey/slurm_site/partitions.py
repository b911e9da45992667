"""``scontrol show partition``."""

from __future__ import annotations

from collections.abc import Mapping

from jobgen.named_tuple import NamedTuple
from jobgen.survey.slurm_site.scontrol_fields import (
    parse_count,
    parse_records,
    parse_tres,
    read_value,
    split_list,
)


class Partition(NamedTuple):
    """A partition as the controller knows it."""

    name: str
    default: bool = False
    state: str = ""
    """UP, DOWN, DRAIN or INACTIVE."""
    nodes: str = ""
    """The list as Slurm folds it: ``n[1-4]``."""
    total_nodes: int = 0
    max_time: str = ""
    """As Slurm writes it, ``7-00:00:00``; empty where there is no limit."""
    default_time: str = ""
    """Of jobs that set no time; empty where Slurm gives them the longest."""
    max_nodes: int | None = None
    """The most nodes of a job; None where there is no limit."""
    accounts: tuple[str, ...] = ()
    """Accounts that may use it; none named: all."""
    denied: tuple[str, ...] = ()
    """Accounts that may not."""
    qos: tuple[str, ...] = ()
    """QOS that may be used in it; none named: all."""
    own_qos: str = ""
    """The QOS whose limits hold for every job in it, beside those of the job's own."""
    groups: tuple[str, ...] = ()
    """Unix groups that may use it; none named: all."""
    hidden: bool = False
    root_only: bool = False
    """Whether only root may submit to it."""
    gpus: int | None = None
    """GPUs in all its nodes, where its TRES count them."""

    def admits(self, account: str) -> bool:
        """Whether its lists let this account in."""
        name = account.lower()
        named = {one.lower() for one in self.accounts}
        return name not in {one.lower() for one in self.denied} and (not named or name in named)


def parse_partitions(text: str) -> tuple[Partition, ...]:
    """The partitions in ``scontrol show partition``, one line each (``-o``) or several."""
    found = (_partition(record) for record in parse_records(text, "PartitionName"))
    return tuple(one for one in found if one.name)


def _partition(record: Mapping[str, str]) -> Partition:
    get = record.get
    counted = parse_tres(get("TRES", "")).get("gres/gpu", "")
    return Partition(
        name=read_value(get("PartitionName", "")),
        default=get("Default", "") == "YES",
        state=read_value(get("State", "")),
        nodes=read_value(get("Nodes", "")),
        total_nodes=parse_count(get("TotalNodes", "")),
        max_time=read_value(get("MaxTime", "")),
        default_time=read_value(get("DefaultTime", "")),
        max_nodes=parse_count(get("MaxNodes", "")) or None,
        accounts=_allowed(get("AllowAccounts", "")),
        denied=split_list(get("DenyAccounts", "")),
        qos=_allowed(get("AllowQos", "")),
        own_qos=read_value(get("QoS", "")),
        groups=_allowed(get("AllowGroups", "")),
        hidden=get("Hidden", "") == "YES",
        root_only=get("RootOnly", "") == "YES",
        gpus=parse_count(counted) if counted else None,
    )


def _allowed(text: str) -> tuple[str, ...]:
    """The names that are let in; none where all are."""
    names = split_list(text)
    return () if "ALL" in names else names
