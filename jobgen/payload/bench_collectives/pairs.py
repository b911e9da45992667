"""Each pair of nodes by itself, as in a tournament."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

from .arrays import FLOAT, Array, elements
from .timing import measure
from .world import World


def rounds(count: int) -> Iterator[list[tuple[int, int]]]:
    """A tournament: each pair of ``count`` meets once, all that can at the same time.

    The circle method: one stays, the others go round. Of an odd number one rests in each round.
    """
    places = list(range(count)) + ([-1] if count % 2 else [])
    half = len(places) // 2
    for _ in range(len(places) - 1):
        faced = zip(places[:half], reversed(places[half:]), strict=True)
        yield [(min(a, b), max(a, b)) for a, b in faced if a >= 0 and b >= 0]
        places[1:] = [places[-1], *places[1:-1]]


def pairs(world: World, asked: argparse.Namespace, write: Callable[..., None]) -> None:
    """An all-reduce within each pair of nodes, in the rounds of a tournament."""
    dist = world.torch.distributed
    names = list(world.nodes)
    for number, faced in enumerate(rounds(len(names))):
        mine: dict[str, Any] | None = None
        for a, b in faced:
            members = [*world.nodes[names[a]], *world.nodes[names[b]]]
            group = dist.new_group(members)
            if world.rank in members:
                mine = {"a": names[a], "b": names[b], "members": members, "group": group}
        dist.barrier()
        said = played(world, mine, asked) if mine else None
        heard: list[Any] = [None] * world.size
        dist.all_gather_object(heard, said)
        for one in heard:
            if one is not None:
                write(kind="pair", round=number, **one)
        if mine:
            dist.destroy_process_group(mine["group"])


def played(world: World, mine: dict[str, Any], asked: argparse.Namespace) -> dict[str, Any] | None:
    """One pair's times, said by the first of its ranks."""
    members = mine["members"]
    count = elements(asked.pair_size, len(members))
    place = members.index(world.rank)
    array = Array(world, "all_reduce", count, mine["group"], place, len(members))
    times, wrong = measure(world, array, asked.seconds, asked.repeats)
    if place:
        return None
    found = {"a": mine["a"], "b": mine["b"], "ranks": len(members), "bytes": count * FLOAT}
    return {**found, **times._asdict(), "wrong": wrong}
