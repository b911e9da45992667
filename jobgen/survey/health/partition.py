"""What speaks against a partition, for this user, and what it allows at most."""

from __future__ import annotations

import re
from collections.abc import Sequence

from jobgen.survey.slurm_site.partitions import Partition

_TIME = re.compile(r"(?:(\d{1,5})-)?(\d{1,4}):(\d{2}):(\d{2})", re.ASCII)


def parse_max_time(partition: Partition) -> int | None:
    """The longest time limit; None where there is none, or it is not understood."""
    found = _TIME.fullmatch(partition.max_time)
    if not found:
        return None
    days, hours, minutes, rest = (int(part or 0) for part in found.groups())
    return days * 86400 + hours * 3600 + minutes * 60 + rest


def get_max_nodes(partition: Partition) -> int:
    """The most nodes that a job may have there."""
    return min(partition.total_nodes, partition.max_nodes or partition.total_nodes)


def select_partitions(known: Sequence[Partition], names: str) -> list[Partition]:
    """Those of these names (``a,b``); where none is named, the default one."""
    if names:
        return [p for p in known if p.name in names.split(",")]
    return [p for p in known if p.default]


def find_obstacle(partition: Partition, account: str, qos: str, groups: Sequence[str]) -> str:
    """Why this user's jobs would not start there; empty where nothing is against it."""
    name = f"partition {partition.name}"
    if partition.state not in ("", "UP"):
        return f"{name} is {partition.state}"
    if partition.root_only:
        return f"{name} is for root only"
    for what, mine, allowed in (
        ("account", [account], partition.accounts),
        ("QOS", [qos], partition.qos),
        ("group", groups, partition.groups),
    ):
        if not any(mine) or not allowed or _lower(mine) & _lower(allowed):
            continue
        other = "yours" if what == "group" else mine[0]
        return f"{name} is for {what} {' or '.join(allowed[:6])} only, not {other}"
    if account and account.lower() in _lower(partition.denied):
        return f"{name} refuses account {account}"
    return ""


def _lower(names: Sequence[str]) -> set[str]:
    return {name.lower() for name in names}
