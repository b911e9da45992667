"""``scontrol show node``."""

from __future__ import annotations

from collections.abc import Mapping

from jobgen.named_tuple import NamedTuple
from jobgen.survey.slurm_site.scontrol_fields import (
    MARKS,
    Gres,
    parse_count,
    parse_gres,
    parse_memory,
    parse_records,
    read_value,
    split_list,
)


class SlurmNode(NamedTuple):
    """A node as the controller knows it."""

    name: str
    state: tuple[str, ...] = ()
    """Base state and flags: IDLE, DRAIN."""
    cpus: int = 0
    """CPUs that jobs can have, as Slurm counts them."""
    memory: int = 0
    """MiB that jobs may ask for (RealMemory); 0 where the site has not said."""
    gres: tuple[Gres, ...] = ()
    partitions: tuple[str, ...] = ()
    reason: str = ""
    kept: bool = False
    """Whether it keeps CPUs or memory for the system (CoreSpecCount, MemSpecLimit): not in these
    numbers, as a job that asks for them is refused."""

    @property
    def gpus(self) -> tuple[Gres, ...]:
        """Its GPUs, a row for each type."""
        return tuple(one for one in self.gres if one.name == "gpu" and one.number)

    @property
    def usable(self) -> bool:
        """Whether jobs can run on it now, or could when it is free."""
        out = _OUT - {"NOT_RESPONDING"} if "POWERING_UP" in self.state else _OUT
        return not out.intersection(self.state)


_OUT = frozenset(
    {"DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "INVAL", "INVALID_REG", "UNKNOWN"}
    | {"NOT_RESPONDING", "ERROR", "FUTURE"}
)


def parse_nodes(text: str) -> tuple[SlurmNode, ...]:
    """The nodes in ``scontrol show node``, one line each (``-o``) or several.

    Nodes that are only planned (FUTURE) are left out.
    """
    found = (_node(record) for record in parse_records(text, "NodeName"))
    return tuple(node for node in found if node.name and "FUTURE" not in node.state)


def _node(record: Mapping[str, str]) -> SlurmNode:
    get = record.get
    total, for_jobs = parse_count(get("CPUTot", "")), parse_count(get("CPUEfctv", ""))
    real, own = parse_memory(get("RealMemory", "")), parse_count(get("MemSpecLimit", ""))
    return SlurmNode(
        name=read_value(get("NodeName", "")),
        state=tuple(w for word in get("State", "").split("+") if (w := word.rstrip(MARKS))),
        cpus=min(total, for_jobs or total),
        memory=max(0, real - own),
        gres=parse_gres(get("Gres", "")),
        partitions=split_list(get("Partitions", "")),
        reason=read_value(get("Reason", "")),
        kept=0 < for_jobs < total or 0 < own < real,
    )
