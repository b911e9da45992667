"""How the ranks are divided: tensor, pipeline, context, expert and data parallel degrees.

A fault of a degree has no hint here: ``proposals`` lists the values that all checks accept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import TYPE_CHECKING, Literal

from jobgen.model.train import Offload
from jobgen.strategy.framework_choice import choose_framework
from jobgen.strategy.rules import check_offload
from jobgen.strategy.spec import TRAITS, Mesh, ModelSizes, RankLayout, TrainDiagnostic

if TYPE_CHECKING:
    from jobgen.model.train import Train

NAMES = {"tp": "tensor", "pp": "pipeline", "cp": "context", "ep": "expert"}
SLOW = ("ethernet", "none", "unknown")
"""Networks whose bandwidth is an order of magnitude below what tensor parallel needs."""

AXES_OF_MODEL = ("tp", "pp", "cp")
"""The degrees that one copy of the model is spread over."""
_DIVIDES = (
    ("tp", "heads", "attention heads"),
    ("tp", "kv_heads", "key/value heads"),
    ("tp", "ffn", "columns of the feed-forward layer"),
    ("pp", "layers", "layers"),
    ("ep", "experts", "experts"),
)
"""Degree, the size that it must divide, and what that is."""


def build_mesh(train: Train, world: RankLayout) -> Mesh:
    """The mesh of these ranks. What ``check_mesh`` reports is not checked here."""
    asked = train.strategy
    data = max(1, world.ranks // (train.tp * train.pp * train.cp))
    shard = (asked.shard or data) if TRAITS[asked.type].stage else 1
    if asked.type == "fsdp-hybrid" and asked.shard is None:
        shard = world.ranks_per_node
    # check_mesh refuses a size that the job sets; what nobody asked for is one group of all
    shard = shard if data % shard == 0 else data
    etp = _choose_etp(train, data)
    return Mesh(data // shard, shard, train.tp, train.pp, train.cp, train.ep, etp)


def _choose_etp(train: Train, data: int) -> int:
    """Ranks that share each expert; 0 if as many as tp, which is Megatron-LM's default
    (megatron/training/arguments.py). With ep, torchtitan has one (distributed/parallel_dims.py);
    without, its experts are divided by tp (``apply_moe_ep_tp``)."""
    if train.etp is not None or train.ep == 1:
        return train.etp or 0
    whole = train.framework == "torchtitan" or data * train.cp % train.ep
    return 1 if whole and train.tp > 1 else 0


def check_mesh(
    train: Train, sizes: ModelSizes, world: RankLayout | None, launcher: str = ""
) -> Iterator[TrainDiagnostic]:
    """What of the degrees cannot work; without a world, what no world could mend."""
    yield from _axes(train, launcher)
    yield from _without_experts(train, sizes)
    yield from _sizes(train, sizes)
    if world is not None:
        yield from _world(train, world)
        yield from _network(train, world)


def _axes(train: Train, launcher: str) -> Iterator[TrainDiagnostic]:
    trait = TRAITS[train.strategy.type]
    for axis, name in NAMES.items():
        degree = getattr(train, axis)
        if degree == 1 or axis in trait.axes:
            continue
        why = _WHY.get((trait.family, axis), f"{trait.title} shards over all ranks alike")
        hint = f"remove {axis}, or set {_suggest_strategy(train, axis, launcher)}"
        message = f"{axis}: {degree} ({name} parallel) does not work with {trait.title}: {why}"
        yield TrainDiagnostic("J232", message, (axis,), hint)
    if train.etp is not None and train.tp % train.etp:
        message = f"etp {train.etp} does not divide tp {train.tp}, whose ranks share each expert"
        yield TrainDiagnostic("J231", message, ("etp",))


_WHY = {
    (
        "zero",
        "pp",
    ): "its shards would be gathered or reduced again for every micro-batch of the pipeline",
    ("fsdp", "tp"): "FSDP1's flat parameters cannot be DTensors; FSDP2's can",
    ("ddp", "tp"): "every rank holds the whole model",
    ("ddp", "pp"): "every rank holds the whole model",
    ("ddp", "cp"): "every rank computes whole sequences",
    ("ddp", "ep"): "every rank holds every expert",
}


_PARTLY: dict[str, tuple[str, ...]] = {
    "accelerate": ("tp", "cp"),
    "lightning": ("tp",),
    "hf-trainer": (),
    "deepspeed": (),
}
"""Frameworks whose configuration divides the model along some axes only, or along none."""


def _suggest_strategy(train: Train, axis: str, launcher: str) -> str:
    """``strategy: fsdp2``: the nearest that divides the model as the job asks, with the framework
    where the job's own has none."""
    asked = [name for name in NAMES if getattr(train, name) > 1]
    sharded = ("fsdp2", "3d") if TRAITS[train.strategy.type].stage else ("3d", "fsdp2")
    nearest = ("zero1", *(("3d", "fsdp2") if axis == "pp" else sharded))
    for what, suffix in _OFFLOADS.items():
        offload = Offload(what=what) if what else train.offload
        for own, name in (*((True, name) for name in nearest), (False, nearest[1])):
            changed = train.replace(strategy=name, offload=offload)
            framework = choose_framework(changed, launcher) if own else "torch"
            able = all(_can_divide(framework, name, one) for one in asked)
            if able and not any(check_offload(changed, TRAITS[name])):
                return "framework: torch and " * (not own) + f"strategy: {name}{suffix}"
    return f"framework: torch and strategy: {nearest[1]}"


_OFFLOADS: Mapping[Literal["", "both", "none"], str] = {
    "": "",
    "both": " and offload: both",
    "none": " and remove offload",
}
"""What is offloaded with another strategy, as now if empty → words of a hint."""


def _can_divide(framework: str, name: str, axis: str) -> bool:
    """Whether this framework divides the model along the axis under that strategy. DeepSpeed's
    ZeRO does not; torchtitan's experts lie on the ranks that a copy is sharded over."""
    trait = TRAITS[name]
    if framework not in trait.frameworks or axis not in _PARTLY.get(framework, trait.axes):
        return False
    if trait.family == "zero":
        return framework == "megatron"
    return bool(trait.stage) or (framework, axis) != ("torchtitan", "ep")


BALANCED = ("megatron", "torchtitan")
"""Frameworks that give the first and the last stage of a pipeline a layer less, for the embedding
and the output layer."""


def is_balanced(layers: int, stages: int) -> bool:
    """Whether layers come out even where embedding and output layer count as one each."""
    return (layers + 2) % stages == 0


def _sizes(train: Train, sizes: ModelSizes) -> Iterator[TrainDiagnostic]:
    seen = set()
    for axis, size, what in _DIVIDES:
        degree, count = getattr(train, axis), getattr(sizes, size)
        if degree == 1 or count is None or count % degree == 0 or (axis, count) in seen:
            continue
        if axis == "pp" and is_balanced(count, degree) and train.framework in BALANCED:
            continue
        seen.add((axis, count))
        message = f"{axis} {degree} does not divide the {count} {what}"
        yield TrainDiagnostic("J233", message, (axis,))
    if train.cp > 1 and train.seq_len and train.seq_len % (2 * train.cp):
        message = (
            f"cp {train.cp} does not divide seq_len {train.seq_len}: each rank gets two of "
            f"{2 * train.cp} chunks, which balances the causal mask"
        )
        yield TrainDiagnostic("J233", message, ("cp",))


def _without_experts(train: Train, sizes: ModelSizes) -> Iterator[TrainDiagnostic]:
    """Sizes that a dense model gives no meaning."""
    asked = {"ep": train.ep if train.ep > 1 else None, "etp": train.etp}
    for axis, degree in asked.items() if sizes.experts == 0 else ():
        if degree is not None:
            message = f"{axis} {degree} divides experts, but {sizes.name or 'train.model'} has none"
            hint = (
                f"remove {axis}" if sizes.name else f"add experts to train.model, or remove {axis}"
            )
            yield TrainDiagnostic("J233", message, (axis,), hint)


def _world(train: Train, world: RankLayout) -> Iterator[TrainDiagnostic]:
    degrees = {axis: getattr(train, axis) for axis in AXES_OF_MODEL}
    model = prod(degrees.values())
    said = " x ".join(f"{axis} {degree}" for axis, degree in degrees.items() if degree > 1)
    if world.ranks % model:
        equals = f"{said} = {model}" if " x " in said else said
        message = f"{equals} does not divide the {world.ranks} ranks"
        first = next(axis for axis, degree in degrees.items() if degree > 1)
        yield TrainDiagnostic("J231", message, (first,))
        return
    data = world.ranks // model
    if train.dp is not None and train.dp != data:
        left = f"{world.ranks} ranks / ({said}) = {data}" if said else f"the {data} ranks"
        message = f"dp is {train.dp}, but should be {left}"
        yield TrainDiagnostic("J231", message, ("dp",))
    yield from _within(train, world, data)


def _within(train: Train, world: RankLayout, data: int) -> Iterator[TrainDiagnostic]:
    """Degrees that lie inside the data-parallel ranks."""
    shard = train.strategy.shard
    alone = train.strategy.type == "fsdp-hybrid" and (shard or world.ranks_per_node) == 1
    if alone and data > 1:
        message = (
            "each copy would have a single rank: torch turns HYBRID_SHARD into NO_SHARD "
            "then, and the copies diverge"
        )
        yield TrainDiagnostic("J231", message, ("strategy",), "set strategy: ddp, or fsdp")
        return
    if shard is not None and data % shard:
        message = f"shard {shard} does not divide the {data} data-parallel ranks"
        yield TrainDiagnostic("J231", message, ("strategy", "shard"))
    reshard = train.strategy.reshard_after_forward
    if not isinstance(reshard, bool):
        within = shard or data
        if within % reshard or reshard >= within:
            message = (
                f"reshard_after_forward {reshard} must be a proper divisor of the {within} "
                "ranks in a shard group"
            )
            yield TrainDiagnostic("J231", message, ("strategy", "reshard_after_forward"))
    yield from _experts(train, data)


def _experts(train: Train, data: int) -> Iterator[TrainDiagnostic]:
    """Ranks that hold the same layers share their experts: by ep, and each by etp."""
    within, etp = data * train.cp * train.tp, _choose_etp(train, data) or train.tp
    if within % (train.ep * etp) == 0:
        return
    asked = f"ep {train.ep} x etp {etp}" if train.etp else f"ep {train.ep}"
    message = f"{asked} does not divide the {within} ranks that share the experts"
    yield TrainDiagnostic("J231", message, ("ep",))


def _network(train: Train, world: RankLayout) -> Iterator[TrainDiagnostic]:
    """A tensor-parallel group that spans nodes waits for the network in every layer."""
    here = world.ranks_per_node
    if train.tp == 1 or here % train.tp == 0:
        return
    across = train.tp > here
    if across and world.fabric not in SLOW:
        return
    message = (
        f"tp {train.tp} spans nodes of {here} ranks over {_named(world.fabric)}"
        if across
        else (
            f"tp {train.tp} does not divide the {here} ranks of a node, so that some groups "
            "span two nodes"
        )
    )
    yield TrainDiagnostic("J234", message, ("tp",))


def _named(fabric: str | None) -> str:
    return "ethernet" if fabric == "ethernet" else "an unknown network"
