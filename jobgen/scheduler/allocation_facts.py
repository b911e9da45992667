"""``scontrol show job --details``: what an allocation has. Pure."""

from __future__ import annotations

import re

from jobgen.model.record import JobState
from jobgen.named_tuple import NamedTuple
from jobgen.scheduler.slurm_format import split_nodes
from jobgen.shell import Command, Result

_GROUP = re.compile(r" Nodes=(\S{1,4096}) CPU_IDs=([0-9,-]{1,4096}) Mem=\d+(?: GRES=(\S*))?")
_FIELD = r"(?:^| ){}=(\S*)"
_GPUS = re.compile(r"gpu(?::[^:(,]+)?:(\d{1,4})")


class AllocationFacts(NamedTuple):
    """A job of the cluster, as far as a run inside of it needs to know."""

    state: JobState
    user: str
    nodes: int
    cpus: int
    """Of the node with the fewest."""
    gpus: int
    """Of the node with the fewest."""


def show_job(job: str) -> Command:
    """Asks for all that Slurm knows of a job."""
    return Command.of("scontrol", "show", "job", "--details", "--oneliner", job)


def is_unknown(result: Result) -> bool:
    """Whether Slurm answered that it lists no such job."""
    return result.code != 0 and "Invalid job id" in result.error_text


def parse_job(text: str) -> AllocationFacts | None:
    """The facts in Slurm's answer; None if it describes no job."""
    state, user = _read(text, "JobState"), _read(text, "UserId").partition("(")[0]
    if not state:
        return None
    groups = [
        (len(split_nodes(nodes)), _count_ids(ids), sum(map(int, _GPUS.findall(gres))))
        for nodes, ids, gres in _GROUP.findall(text)
    ]
    return AllocationFacts(
        JobState.__members__.get(state, JobState.UNKNOWN),
        user,
        sum(nodes for nodes, _, _ in groups),
        min((cpus for _, cpus, _ in groups), default=0),
        min((gpus for _, _, gpus in groups), default=0),
    )


def _read(text: str, name: str) -> str:
    match = re.search(_FIELD.format(name), text)
    return match[1] if match else ""


def _count_ids(ids: str) -> int:
    """How many ``0-3,8`` are."""
    count = 0
    for part in ids.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            count += max(int(last or first) - int(first) + 1, 0)
    return count
