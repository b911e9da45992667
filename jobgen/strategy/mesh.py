"""How the ranks are divided: tensor, pipeline, context, expert and data parallel degrees."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd, prod
from typing import TYPE_CHECKING

from jobgen.strategy.values import TRAITS, Fault, Mesh, Sizes, World

if TYPE_CHECKING:
    from jobgen.model.train import Train

NAMES = {"tp": "tensor", "pp": "pipeline", "cp": "context", "ep": "expert"}
SLOW = ("ethernet", "none")
"""Networks whose bandwidth is an order of magnitude below what tensor parallel needs."""

_DIVIDES = (
    ("tp", "heads", "attention heads"),
    ("tp", "kv_heads", "heads of keys and values"),
    ("tp", "ffn", "columns of the feed-forward layer"),
    ("pp", "layers", "layers"),
    ("ep", "experts", "experts"),
)
"""Degree, the size that it must divide, and what that is."""


def mesh(train: Train, world: World) -> Mesh:
    """The mesh of these ranks. What ``faults`` says of it is not looked at here."""
    asked = train.strategy
    data = max(1, world.ranks // (train.tp * train.pp * train.cp))
    shard = (asked.shard or data) if TRAITS[asked.type].stage else 1
    if asked.type == "fsdp-hybrid" and asked.shard is None:
        shard = world.ranks_per_node
    # faults says it of a wish; what nobody asked for falls back to one group of all
    shard = shard if data % shard == 0 else data
    return Mesh(data // shard, shard, train.tp, train.pp, train.cp, train.ep)


def faults(train: Train, sizes: Sizes, world: World | None) -> Iterator[Fault]:
    """What of the degrees cannot work; without a world, what no world could mend."""
    yield from _axes(train)
    yield from _sizes(train, sizes, world)
    if world is not None:
        yield from _world(train, world)
        yield from _network(train, world)


def _axes(train: Train) -> Iterator[Fault]:
    trait = TRAITS[train.strategy.type]
    for axis, name in NAMES.items():
        degree = getattr(train, axis)
        if degree == 1 or axis in trait.axes:
            continue
        why = _WHY.get((trait.family, axis), f"{trait.title} shards over all ranks alike")
        hint = f"remove {axis}, or write strategy: {_nearest(trait.stage, axis)}"
        message = f"{axis}: {degree} ({name} parallel) does not go with {trait.title}: {why}"
        yield Fault("J232", message, (axis,), hint)


_WHY = {
    ("zero", "pp"): "its shards would be gathered, or reduced, again for every micro-batch of the "
    "pipeline",
    ("fsdp", "tp"): "its flat parameters cannot be DTensors; FSDP2's can",
    ("ddp", "tp"): "every rank holds all of the model",
    ("ddp", "pp"): "every rank holds all of the model",
}


def _nearest(stage: int, axis: str) -> str:
    if axis == "pp":
        return "zero1 (megatron) or 3d"
    return "fsdp2" if stage else "3d"


def _sizes(train: Train, sizes: Sizes, world: World | None) -> Iterator[Fault]:
    seen = set()
    for axis, size, what in _DIVIDES:
        degree, count = getattr(train, axis), getattr(sizes, size)
        if degree == 1 or count is None or count % degree == 0 or (axis, count) in seen:
            continue
        seen.add((axis, count))
        message = f"{axis} {degree} does not divide the {count} {what}"
        yield Fault("J233", message, (axis,), _dividing(axis, degree, sizes, world))
    if train.cp > 1 and train.seq_len and train.seq_len % (2 * train.cp):
        message = (
            f"cp {train.cp} does not divide seq_len {train.seq_len}: each rank takes two "
            f"of {2 * train.cp} pieces, so that the causal mask gives all the same work"
        )
        yield Fault("J233", message, ("cp",), f"a seq_len that {2 * train.cp} divides")


def _dividing(axis: str, degree: int, sizes: Sizes, world: World | None) -> str:
    counts = [getattr(sizes, size) for a, size, _ in _DIVIDES if a == axis]
    common = gcd(*(c for c in counts if c))
    most = world.ranks_per_node if world and axis == "tp" else common
    fits = [d for d in range(2, min(common, 4096) + 1) if common % d == 0 and d <= most]
    near = sorted(fits, key=lambda d: (abs(d - degree), d))[:2]
    return f"write {axis}: " + " or ".join(str(d) for d in near) if near else f"remove {axis}"


def _world(train: Train, world: World) -> Iterator[Fault]:
    degrees = {axis: getattr(train, axis) for axis in ("tp", "pp", "cp")}
    model = prod(degrees.values())
    said = " x ".join(f"{axis} {degree}" for axis, degree in degrees.items() if degree > 1)
    if world.ranks % model:
        first = next(axis for axis, degree in degrees.items() if degree > 1)
        message = f"{said} = {model} does not divide the {world.ranks} ranks"
        yield Fault("J231", message, (first,), f"degrees whose product divides {world.ranks}")
        return
    data = world.ranks // model
    if train.dp is not None and train.dp != data:
        left = f"{world.ranks} ranks" + (f" / ({said})" if said else "")
        message = f"dp {train.dp} is not {left} = {data}"
        yield Fault("J231", message, ("dp",), f"write dp: {data}, or leave it out")
    yield from _within(train, data)


def _within(train: Train, data: int) -> Iterator[Fault]:
    """Degrees that lie inside the data-parallel ranks."""
    shard = train.strategy.shard
    if shard is not None and data % shard:
        message = f"shard {shard} does not divide the {data} data-parallel ranks"
        yield Fault("J231", message, ("strategy", "shard"), _some_of(data, "shard"))
    reshard = train.strategy.reshard_after_forward
    if not isinstance(reshard, bool):
        within = shard or data
        if within % reshard or reshard >= within:
            message = (
                f"reshard_after_forward {reshard} is no true part of the {within} ranks that share"
            )
            hint = "write true, or " + _some_of(within, "a number").removeprefix("a number: ")
            yield Fault("J231", message, ("strategy", "reshard_after_forward"), hint)
    if train.ep > 1 and data * train.cp % train.ep:
        message = f"ep {train.ep} does not divide the {data * train.cp} ranks that it lies inside"
        yield Fault("J231", message, ("ep",), _some_of(data * train.cp, "ep"))


def _some_of(count: int, what: str) -> str:
    found = [d for d in range(2, min(count, 4096) + 1) if count % d == 0]
    return f"{what}: " + ", ".join(map(str, found[:8])) if found else f"leave {what} out"


def _network(train: Train, world: World) -> Iterator[Fault]:
    """A tensor-parallel group that spans nodes waits for the network in every layer."""
    here = world.ranks_per_node
    if train.tp == 1 or here % train.tp == 0:
        return
    across = train.tp > here
    if across and world.fabric not in SLOW:
        return
    message = (
        f"tp {train.tp} spans nodes of {here} ranks, over {_named(world.fabric)}"
        if across
        else f"tp {train.tp} does not divide the {here} ranks of a node: some groups would span two"
    )
    fits = [d for d in range(here, 1, -1) if here % d == 0]
    hint = f"write tp: {fits[0]} and more pp or dp" if fits else "write pp instead of tp"
    yield Fault("J234", message, ("tp",), hint)


def _named(fabric: str | None) -> str:
    return "ethernet" if fabric == "ethernet" else "a network that nobody described"
