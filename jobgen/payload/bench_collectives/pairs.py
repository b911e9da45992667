"""Pairs of nodes by themselves: each with each as in a tournament, or neighbours alone."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .arrays import FLOAT, Array, elements
from .timing import measure
from .world import ProcessGroup


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


def neighbours(count: int) -> Iterator[list[tuple[int, int]]]:
    """Each of ``count`` in a ring with the next one: two rounds, or three of an odd number."""
    ring = [(place, (place + 1) % count) for place in range(count if count > 2 else count - 1)]
    last = [ring.pop()] if len(ring) % 2 and len(ring) > 1 else []
    for faced in (ring[::2], ring[1::2], last):
        if faced:
            yield [(min(pair), max(pair)) for pair in faced]


def pairs(
    world: ProcessGroup,
    asked: argparse.Namespace,
    write: Callable[..., None],
    played_in: Callable[[int], Iterable[list[tuple[int, int]]]] = rounds,
) -> None:
    """An all-reduce within pairs of nodes, in the rounds of a tournament or of another order."""
    dist = world.torch.distributed
    names = list(world.nodes)
    for number, faced in enumerate(played_in(len(names))):
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


def played(
    world: ProcessGroup, mine: dict[str, Any], asked: argparse.Namespace
) -> dict[str, Any] | None:
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
