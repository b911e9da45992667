"""How many tasks of a step run where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .environment import spread
from .errors import CommandError
from .hostlist import expand


class Task(NamedTuple):
    """One task: its rank, and its place on its node."""

    rank: int
    node: int
    local: int
    host: str


class StepLayout(NamedTuple):
    """What one srun runs."""

    command: tuple[str, ...]
    tasks: tuple[Task, ...]
    hosts: tuple[str, ...]
    counts: tuple[int, ...]
    wanted: Mapping[str, str]
    number: int = 0

    def numbered(self, number: int) -> StepLayout:
        """The same step with this number."""
        return self._replace(number=number)


def layout(
    wanted: Mapping[str, str],
    command: Sequence[str],
    hosts: Sequence[str],
    environ: Mapping[str, str],
) -> tuple[StepLayout, list[str]]:
    """The step, and what srun complains of. Options beat the variables of the batch job."""
    among = _among(wanted, hosts)
    nodes = _number(wanted, "nodes") or min(len(among), _env(environ, "SLURM_NNODES") or len(among))
    per_node = _number(wanted, "ntasks-per-node")
    tasks = _number(wanted, "ntasks") or (per_node * nodes if per_node else 0)
    tasks = tasks or _env(environ, "SLURM_NTASKS") or nodes
    warnings = []
    if tasks < nodes:
        text = f"can't run {tasks} processes on {nodes} nodes, setting nnodes to {tasks}"
        warnings.append(f"Warning: {text}")
        nodes = tasks
    if nodes > len(hosts):
        raise CommandError(f"srun: error: Only allocated {len(hosts)} nodes asked for {nodes}")
    if nodes > len(among):
        raise CommandError("srun: error: Unable to create step: Requested nodes are not available")
    if per_node and tasks > per_node * nodes:
        text = "More processors requested than permitted"
        raise CommandError(f"srun: error: Unable to create step for job: {text}")
    used, counts = tuple(among[:nodes]), tuple(spread(tasks, nodes))
    placed = [(node, local) for node, count in enumerate(counts) for local in range(count)]
    found = tuple(Task(rank, n, local, used[n]) for rank, (n, local) in enumerate(placed))
    return StepLayout(tuple(command), found, used, counts, wanted), warnings


def _among(wanted: Mapping[str, str], hosts: Sequence[str]) -> list[str]:
    try:
        named = expand(wanted.get("nodelist", ""))
        out = expand(wanted.get("exclude", ""))
    except ValueError as error:
        raise CommandError(f"srun: error: Invalid node list: {error}") from None
    missing = [name for name in named if name not in hosts]
    if missing:
        text = "Requested node configuration is not available"
        raise CommandError(f"srun: error: Unable to create step for job: {text}")
    left = [name for name in (named or hosts) if name not in out]
    relative = wanted.get("relative", "0")
    return left[int(relative) :] if relative.isdecimal() else left


def _number(wanted: Mapping[str, str], name: str) -> int:
    text = wanted.get(name)
    if text is None:
        return 0
    low, _, high = text.partition("-")
    if not low.isdigit() or int(low) == 0 or (high and not high.isdigit()):
        raise CommandError(f'srun: error: Invalid numeric value "{text}" for --{name}.')
    return int(high or low)


def _env(environ: Mapping[str, str], name: str) -> int:
    text = environ.get(name, "")
    return int(text) if text.isdigit() else 0
