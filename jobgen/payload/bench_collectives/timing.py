"""Seconds of a collective: of its slowest rank, repetition by repetition."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from .arrays import FLOAT, Array
from .world import ProcessGroup

_SMALL = 1 << 20
"""Bytes below which several calls are timed as one."""


class Times(NamedTuple):
    """Seconds of one call, over the repetitions."""

    median: float
    p10: float
    p90: float
    repeats: int


def quantile(ordered: Sequence[float], part: float) -> float:
    """The value below which this part of them lies, between two of them where it must."""
    at = part * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def summary(seconds: Sequence[float]) -> Times:
    """Median and the spread of eight in ten."""
    ordered = sorted(seconds)
    low, middle, high = (quantile(ordered, part) for part in (0.1, 0.5, 0.9))
    return Times(middle, low, high, len(ordered))


def timed(world: ProcessGroup, array: Array, calls: int) -> float:
    """Seconds of one of so many calls in a row, on this rank; all begin together."""
    torch = world.torch
    torch.distributed.barrier(group=array.group)
    if world.device.type == "cuda":
        torch.cuda.synchronize()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(calls):
            array.call()
        end.record()
        torch.cuda.synchronize()
        return float(begin.elapsed_time(end)) / 1e3 / calls
    clock = time.perf_counter()
    for _ in range(calls):
        array.call()
    return (time.perf_counter() - clock) / calls


def slowest(world: ProcessGroup, group: Any, values: Sequence[float]) -> list[float]:
    """The most that any rank of the group has of each."""
    torch = world.torch
    found = torch.tensor(list(values), dtype=torch.float64, device=world.device)
    torch.distributed.all_reduce(found, op=torch.distributed.ReduceOp.MAX, group=group)
    return [float(value) for value in found.tolist()]


def measure(
    world: ProcessGroup, array: Array, seconds: float, most: int
) -> tuple[Times, list[int]]:
    """The times of a collective, and how many elements were wrong on each rank."""
    array.fill()
    array.call()
    wrong = [0.0] * array.ranks
    wrong[array.place] = float(array.wrong())
    faults = [int(count) for count in slowest(world, array.group, wrong)]
    array.clear()
    calls = 10 if array.count * FLOAT < _SMALL else 1
    warm = slowest(world, array.group, [timed(world, array, calls) for _ in range(2)])
    repeats = min(max(int(seconds / max(min(warm) * calls, 1e-9)), 3), most)
    own = [timed(world, array, calls) for _ in range(repeats)]
    return summary(slowest(world, array.group, own)), faults
