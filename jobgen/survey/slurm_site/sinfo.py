"""``sinfo``: where ``scontrol`` tells nothing, and what is idle now."""

from __future__ import annotations

from jobgen.named_tuple import NamedTuple
from jobgen.shell import split_lines
from jobgen.survey.slurm_site.scontrol_fields import (
    MARKS,
    Gres,
    parse_count,
    parse_gres,
    parse_memory,
    read_value,
)

FORMAT = "%P|%a|%l|%D|%T|%c|%m|%G|%N"


class NodeGroup(NamedTuple):
    """Nodes of one partition that are alike, and in one state."""

    partition: str
    default: bool
    max_time: str
    """As Slurm writes it, ``7-00:00:00``; empty where there is no limit."""
    number: int
    state: str
    cpus: int
    memory: int
    """MiB of each node; 0 where the site has not said."""
    gres: tuple[Gres, ...]
    nodes: str


def parse_groups(text: str) -> tuple[NodeGroup, ...]:
    """The rows of ``sinfo -h -e -o`` in ``FORMAT``."""
    return tuple(
        NodeGroup(
            partition=row[0].strip().rstrip("*"),
            default=row[0].strip().endswith("*"),
            max_time="" if row[2].strip() == "infinite" else read_value(row[2]),
            number=parse_count(row[3]),
            state=row[4].strip().rstrip(MARKS),
            cpus=parse_count(row[5]),
            memory=parse_memory(row[6]),
            gres=parse_gres(row[7]),
            nodes=read_value(row[8]),
        )
        for line in split_lines(text)
        if len(row := line.split("|")) == 9 and row[0].strip().rstrip("*")
    )
