"""What one rank sends in a step of the optimizer: by collective, by link, and beside what."""

from __future__ import annotations

from collections.abc import Iterator

from jobgen.strategy.estimate import ClusterHardware, Volume
from jobgen.strategy.setup import Setup
from jobgen.strategy.spec import TRAITS
from jobgen.strategy.speed import collectives, rates
from jobgen.strategy.speed.collectives import Collective, Load, RankGroup, Traffic, When
from jobgen.strategy.speed.model_traffic import list_model_traffic
from jobgen.strategy.speed.stage_slice import (
    StageSlice,
    count_largest_stage,
    get_gathered_width,
)

_BUCKET = 25 << 20
"""Bytes that DDP reduces at once (torch's distributed.hpp, kDefaultBucketBytesCap)."""
_REDUCES_ALL = ("deepspeed", "accelerate", "hf-trainer", "lightning", "none", "megatron-deepspeed")
"""Frameworks whose ZeRO-1 and ZeRO-2 are DeepSpeed's: each rank gets all of a bucket reduced, and
keeps its part (runtime/zero/stage_1_and_2.py, ``allreduce_and_scatter``, since 0.12.4;
runtime/pipe/engine.py, ``_bf16_reduce_grads``)."""


def list_traffic(setup: Setup) -> Iterator[Traffic]:
    """All that is sent in one step, in the order of the axes."""
    yield from _data(setup)
    yield from list_model_traffic(setup)


def list_volumes(setup: Setup, machine: ClusterHardware) -> tuple[Volume, ...]:
    """What one rank sends in one step over each kind of link, with the seconds it takes.

    ``exposed`` is here as if nothing were computed beside it; ``compute_step`` counts what is.
    """
    found: list[Volume] = []
    for one in list_traffic(setup):
        sent, took = sum_loads(one, machine)
        found.extend(split_volumes(one, sent, took, took))
    return tuple(found)


def sum_loads(one: Traffic, machine: ClusterHardware) -> tuple[Load, Load]:
    """Bytes and seconds of all collectives of one kind in a step, on either link."""
    sent, took = collectives.time_collective(
        one.what, one.ranks, one.payload, machine, one.forwarded
    )
    n = one.times
    share = rates.get_dispatch_share(machine, across=one.ranks.nodes > 1) if one.fused else 1.0
    return Load(sent.node * n, sent.network * n), Load(took.node * n / share, took.network * n)


def split_volumes(one: Traffic, sent: Load, took: Load, exposed: Load) -> Iterator[Volume]:
    """The volumes of one kind: one for each link that carries something."""
    what = f"{one.what} of {one.of}"
    if sent.node:
        yield Volume(what, "node", sent.node, took.node, exposed.node)
    if sent.network:
        yield Volume(what, "network", sent.network, took.network, exposed.network)


def _data(setup: Setup) -> Iterator[Traffic]:
    """Gradients and parameters over the data-parallel ranks, and over cp, which shares them.

    DDP: an all-reduce. ZeRO-1: a reduce-scatter and an all-gather, of as many bytes, but for
    DeepSpeed, which reduces all. ZeRO-2 reduces every micro-batch. ZeRO-3 and FSDP gather twice
    and reduce once for each: 1.5 times DDP's bytes in one type (ZeRO, arXiv 1910.02054, section 7);
    FSDP1 keeps the root unit gathered. Copies of hybrid shards are reduced in every micro-batch,
    too, unit by unit (torch/distributed/fsdp/_runtime_utils.py, ``_reduce_grad``). Experts have
    smaller groups.
    What torch 2.13 and DeepSpeed 0.19 were seen to send: tests/strategy/speed/test_sent.py.
    """
    spread = setup.mesh.expert_parts / setup.mesh.tp
    whole = count_largest_stage(setup)
    partly = setup.adapters is not None or setup.measured is not None
    learned = count_largest_stage(setup, learned=True) if partly else whole
    parts = [(whole.params, learned.params, 1.0)]
    if whole.experts and spread != 1:
        experts = (whole.experts / spread, learned.experts / spread, spread)
        parts = [(whole.dense, learned.dense, 1.0), experts]
    for params, gradients, divided in parts:
        if params:
            yield from _states(setup, params, gradients, divided, (whole, learned))


def _states(
    setup: Setup,
    params: float,
    gradients: float,
    divided: float,
    slices: tuple[StageSlice, StageSlice],
) -> Iterator[Traffic]:
    whole, learned = slices
    trait = TRAITS[setup.strategy]
    stage = trait.stage if setup.mesh.shard * setup.mesh.cp > 1 else 0
    reduced = setup.recipe.reduce * gradients
    everyone = _fewer(collectives.build_group(setup, "cp", "shard", "replicate"), divided)
    shards = _fewer(collectives.build_group(setup, "cp", "shard"), divided)
    if stage == 0:
        bucket = min(_BUCKET, reduced)
        ready: When = "last" if setup.overlap_reduce else "update"
        yield Traffic("all-reduce", "gradients", everyone, reduced, 1, ready, bucket)
        return
    last = _count_first(setup, learned, gradients, divided)
    if trait.family == "zero" and not trait.shards_parameters:
        # what is frozen belongs to no group of the optimizer
        gathered, unit = (setup.recipe.compute * count for count in (gradients, last))
        yield from _unsharded(setup, stage, shards, reduced, gathered, unit)
        last *= setup.recipe.reduce
    else:
        last *= setup.recipe.reduce
        n = whole.units
        yield from _gather(setup, shards, whole, params, divided)
        passes, when = _time_reduces(setup)
        yield Traffic("reduce-scatter", "gradients", shards, reduced / n, passes * n, when, last)
    if setup.mesh.replicate > 1:
        copies = collectives.build_group(setup, "replicate")
        mine = reduced / shards.size
        if stage > 1 and trait.family != "zero":
            n, last = whole.units, last / shards.size
            passes, when = _time_reduces(setup)
            yield Traffic("all-reduce", "gradients", copies, mine / n, passes * n, when, last)
        else:
            yield Traffic("all-reduce", "gradients", copies, mine, 1, "last", min(_BUCKET, mine))


def _time_reduces(setup: Setup) -> tuple[int, When]:
    """Backward passes that reduce gradients unit by unit, and which: every one, or the last alone
    where FSDP leaves gradients whole until then (torch 2.13, distributed/fsdp/_runtime_utils.py,
    ``_post_backward_hook``; _fully_shard/_fsdp_param_group.py, ``reduce_grads``)."""
    family = TRAITS[setup.strategy].family
    unsynced = setup.unsynced and family in {"fsdp", "fsdp2"}
    return (1, "last") if unsynced else (setup.batch.accumulation, "backward")


def _gather(
    setup: Setup, shards: RankGroup, whole: StageSlice, params: float, divided: float
) -> Iterator[Traffic]:
    """Parameters that ZeRO-3 and FSDP gather, those of layers as they are stored."""
    trait, wide = TRAITS[setup.strategy], setup.recipe.compute
    n, times = whole.units, setup.batch.accumulation * whole.units
    root = whole.root if divided == 1 else 0.0
    each = get_gathered_width(setup, whole)
    layer = _count_layer(whole, params)
    unit = each * layer + wide * (_count_first(setup, whole, params, divided) - layer)
    layers, ends = each * (params - root), wide * root
    average = (layers + ends) / n
    yield Traffic("all-gather", "parameters", shards, average, times, "forward", unit)
    again = _again(setup, shards, trait.stage)
    if again:
        one = layers / n if trait.family == "fsdp" else average
        yield Traffic("all-gather", "parameters again", again, one, times, "backward")


def _count_first(setup: Setup, held: StageSlice, shared: float, divided: float) -> float:
    """Elements that nothing is computed beside, of those that these ranks share: a layer's, and
    those of FSDP's root, or of the embedding where that is a unit of its own. The root is gathered
    before the first layer computes, and reduced when the last gradient is there (torch 2.13,
    distributed/fsdp/_fully_shard/_fsdp_state.py, ``_root_pre_forward`` and
    ``_root_post_backward_final_callback``; FSDP1's root has the embedding, too)."""
    layer = _count_layer(held, shared)
    if not setup.strategy.startswith("fsdp") or divided != 1:
        return layer
    apart = setup.split_root and setup.mesh.pp == 1 and not setup.model.sizes.tied
    return layer + (held.root / 2 if apart else held.root)


def _count_layer(held: StageSlice, shared: float) -> float:
    """Elements of the largest layer, of those that these ranks share."""
    return held.largest * shared / max(1.0, held.params)


def _unsharded(
    setup: Setup, stage: int, shards: RankGroup, reduced: float, gathered: float, unit: float
) -> Iterator[Traffic]:
    """ZeRO-1 and ZeRO-2, where each rank has whole parameters in every micro-batch. DeepSpeed
    gathers them before it goes on, and its pipeline reduces gradients after the last backward pass
    (runtime/pipe/engine.py)."""
    what: Collective = "all-reduce" if setup.framework in _REDUCES_ALL else "reduce-scatter"
    piped = setup.framework == "megatron-deepspeed" and setup.mesh.pp > 1
    ready: When = "last" if stage == 1 else "backward"
    if piped or not setup.overlap_reduce:
        ready = "update"
    beside = setup.framework == "megatron" and setup.overlap_gather
    times = 1 if stage == 1 else setup.batch.accumulation
    yield Traffic(what, "gradients", shards, reduced, times, ready)
    after: When = "forward" if beside else "update"
    yield Traffic("all-gather", "parameters", shards, gathered, 1, after, unit)


def _fewer(ranks: RankGroup, divided: float) -> RankGroup:
    """The ranks that share their experts: neighbours hold others."""
    size = max(1, int(ranks.size / divided))
    return RankGroup(size, max(1, min(size, int(ranks.inside / divided))))


def gathers_again(setup: Setup) -> bool:
    """Whether parameters are given up after the forward pass."""
    kept = setup.strategy == "fsdp2" and setup.reshard is False
    return TRAITS[setup.strategy].shards_parameters and not kept


def _again(setup: Setup, shards: RankGroup, stage: int) -> RankGroup | None:
    """The ranks that parameters are gathered from again in the backward pass."""
    if not gathers_again(setup) or stage < 3:
        return None
    if setup.strategy == "fsdp2" and setup.reshard is not True:
        return collectives.cut_group(shards, int(setup.reshard))
    return shards
