"""The job file of a bench: a job like any other, with the program that measures beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jobgen.model.cluster import ClusterProfile

NAME = "bench-allreduce"
PROGRAM = "bench_collectives"
RESULT = "bench.jsonl"
"""Below the state directory of the task."""
PARTS = ("__init__", "__main__", "arrays", "external", "pairs", "timing", "world")
"""The modules of the program."""
TAKEN = ("setup", "env", "container", "slurm", "vars", "nccl", "cpus_per_task", "mem")
"""Keys that a bench takes over from a job of the user's, whose PyTorch it needs."""
_PAIRS = 4
"""Nodes of a search in pairs where nobody says how many."""
_GPU_SIZES = (1 << 20, 1 << 30)
_CPU_SIZES = (64 << 10, 64 << 20)


class BenchRequest(NamedTuple):
    """What is to be measured."""

    nodes: int
    ops: tuple[str, ...] = ("all_reduce",)
    sizes: tuple[int, ...] = ()
    pairs: bool = False
    tests: bool = False
    """nccl-tests as well."""
    seconds: float = 2.0
    """For each size, about."""


def choose_nodes(profile: ClusterProfile, *, pairs: bool) -> int:
    """Nodes where nobody says how many: two, or the first few of a search in pairs."""
    return min(profile.nodes.count, _PAIRS if pairs else 2)


def choose_sizes(profile: ClusterProfile) -> tuple[int, ...]:
    """Bytes of messages where nobody says them: what takes seconds on such nodes."""
    low, high = _GPU_SIZES if profile.nodes.gpus_per_node else _CPU_SIZES
    found = [low]
    while found[-1] < high:
        found.append(found[-1] * 4)
    return tuple(min(size, high) for size in found)


def format_job(asked: BenchRequest, profile: ClusterProfile, like: Mapping[str, Any]) -> str:
    """The job file. ``like`` is the data of a job whose environment it shares.

    Values are written as JSON, which YAML reads as it is meant.
    """
    keys: dict[str, Any] = {
        "name": NAME,
        "run": build_command(asked),
        "nodes": asked.nodes,
        "time": f"{_minutes(asked)}m",
    }
    if profile.nodes.gpus_per_node:
        keys["mem"] = 0  # whole nodes: a site's default may be too little
    elif profile.procs_per_node is None:
        keys["procs_per_node"] = 1
    keys |= {key: like[key] for key in TAKEN if key in like}
    lines = (f"{key}: {json.dumps(value, default=bool)}\n" for key, value in keys.items())
    return f"# Made by jobgen bench allreduce.\n{''.join(lines)}"


def build_command(asked: BenchRequest) -> str:
    """The command of every rank."""
    words = ["-m", PROGRAM, "--ops", ",".join(asked.ops), "--sizes", _joined(asked.sizes)]
    words += ["--seconds", f"{asked.seconds:g}"]
    if asked.pairs:
        words += ["--pairs", "--pair-size", str(max(asked.sizes))]
    return " ".join([*words, *(["--nccl-tests"] if asked.tests else [])])


def _joined(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def _minutes(asked: BenchRequest) -> int:
    """A time limit with room: ten minutes to start, and ten times what measuring should take."""
    points = len(asked.ops) * len(asked.sizes) + (asked.nodes if asked.pairs else 0)
    return 10 + round(points * asked.seconds * 10 / 60) + (5 if asked.tests else 0)
