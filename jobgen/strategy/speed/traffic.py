"""What one rank sends in a step of the optimizer: by collective, by link, and beside what."""

from __future__ import annotations

from collections.abc import Iterator

from jobgen.strategy.estimate import ClusterHardware, Volume
from jobgen.strategy.setup import Setup
from jobgen.strategy.spec import TRAITS
from jobgen.strategy.speed import collectives
from jobgen.strategy.speed.collectives import Load, RankGroup, Traffic, When
from jobgen.strategy.speed.compute import stops_early
from jobgen.strategy.speed.expert_copies import count_copies
from jobgen.strategy.speed.measured_compute import count_sent
from jobgen.strategy.speed.sequence_traffic import list_context, list_tensor
from jobgen.strategy.speed.stage_slice import (
    StageSlice,
    count_largest_stage,
    count_sparse_layers,
)

_BUCKET = 25 << 20
"""Bytes that DDP reduces at once (torch's distributed.hpp, kDefaultBucketBytesCap)."""


def list_traffic(setup: Setup) -> Iterator[Traffic]:
    """All that is sent in one step, in the order of the axes."""
    yield from _data(setup)
    yield from list_tensor(setup)
    yield from list_context(setup)
    yield from _experts(setup)
    yield from _pipeline(setup)


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
    return Load(sent.node * n, sent.network * n), Load(took.node * n, took.network * n)


def split_volumes(one: Traffic, sent: Load, took: Load, exposed: Load) -> Iterator[Volume]:
    """The volumes of one kind: one for each link that carries something."""
    what = f"{one.what} of {one.of}"
    if sent.node:
        yield Volume(what, "node", sent.node, took.node, exposed.node)
    if sent.network:
        yield Volume(what, "network", sent.network, took.network, exposed.network)


def _data(setup: Setup) -> Iterator[Traffic]:
    """Gradients and parameters over the data-parallel ranks, and over cp, which shares them.

    DDP and ZeRO-1: an all-reduce, or a reduce-scatter and an all-gather of as many bytes. ZeRO-2
    reduces every micro-batch. ZeRO-3 and FSDP gather twice and reduce once for each: 1.5 times
    DDP's bytes in one type (ZeRO, arXiv 1910.02054, section 7); FSDP1 keeps the root unit gathered.
    Copies of hybrid shards are reduced in every micro-batch, too, unit by unit
    (torch/distributed/fsdp/_runtime_utils.py, ``_reduce_grad``). Experts have smaller groups.
    What torch 2.13 was seen to send: tests/strategy/speed/test_sent.py.
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
            yield from _states(setup, params, gradients, divided, whole)


def _states(
    setup: Setup, params: float, gradients: float, divided: float, whole: StageSlice
) -> Iterator[Traffic]:
    trait = TRAITS[setup.strategy]
    stage = trait.stage if setup.mesh.shard * setup.mesh.cp > 1 else 0
    micro = setup.batch.accumulation
    reduced, gathered = setup.recipe.reduce * gradients, setup.recipe.compute * params
    everyone = _fewer(collectives.build_group(setup, "cp", "shard", "replicate"), divided)
    shards = _fewer(collectives.build_group(setup, "cp", "shard"), divided)
    if stage == 0:
        bucket = min(_BUCKET, reduced)
        yield Traffic("all-reduce", "gradients", everyone, reduced, 1, "last", bucket)
        return
    largest = whole.largest * params / whole.params  # of it, what these ranks share
    unit = largest * setup.recipe.compute
    # DeepSpeed's pipeline reduces after the last backward pass (runtime/pipe/engine.py)
    piped = setup.framework == "megatron-deepspeed" and setup.mesh.pp > 1
    ready: When = "update" if piped else "last"
    if stage == 1:
        # jobgen gives Megatron --overlap-param-gather; DeepSpeed gathers before it goes on
        after: When = "forward" if setup.framework == "megatron" else "update"
        yield Traffic("reduce-scatter", "gradients", shards, reduced, 1, ready)
        yield Traffic("all-gather", "parameters", shards, gathered, 1, after, unit)
    elif trait.family == "zero" and stage == 2:
        yield Traffic("reduce-scatter", "gradients", shards, reduced, micro, "backward")
        yield Traffic("all-gather", "parameters", shards, gathered, 1, "update")
    else:
        n = whole.units
        yield Traffic("all-gather", "parameters", shards, gathered / n, micro * n, "forward", unit)
        again = _again(setup, shards, stage)
        if again:
            kept = whole.root if trait.family == "fsdp" and divided == 1 else 0.0
            each = setup.recipe.compute * (params - kept) / n
            yield Traffic("all-gather", "parameters again", again, each, micro * n, "backward")
        last = largest * setup.recipe.reduce
        yield Traffic(
            "reduce-scatter", "gradients", shards, reduced / n, micro * n, "backward", last
        )
    if setup.mesh.replicate > 1:
        copies = collectives.build_group(setup, "replicate")
        mine = reduced / shards.size
        if stage > 1 and trait.family != "zero":
            n, last = whole.units, largest * setup.recipe.reduce / shards.size
            yield Traffic("all-reduce", "gradients", copies, mine / n, micro * n, "backward", last)
        else:
            yield Traffic("all-reduce", "gradients", copies, mine, 1, "last", min(_BUCKET, mine))


def _fewer(ranks: RankGroup, divided: float) -> RankGroup:
    """The ranks that share their experts: neighbours hold others."""
    size = max(1, int(ranks.size / divided))
    return RankGroup(size, max(1, min(size, int(ranks.inside / divided))))


def gathers_again(setup: Setup) -> bool:
    """Whether parameters are given up after the forward pass."""
    kept = setup.strategy == "fsdp2" and setup.reshard is False
    return TRAITS[setup.strategy].stage == 3 and not kept


def _again(setup: Setup, shards: RankGroup, stage: int) -> RankGroup | None:
    """The ranks that parameters are gathered from again in the backward pass."""
    if not gathers_again(setup) or stage < 3:
        return None
    if setup.strategy == "fsdp2" and setup.reshard is not True:
        return collectives.cut_group(shards, int(setup.reshard))
    return shards


def _experts(setup: Setup) -> Iterator[Traffic]:
    """Tokens go to their experts and back, forward and backward: four all-to-alls in each layer
    that has experts, and more where the forward pass is recomputed (GShard, arXiv 2006.16668):
    two, or one where torch's checkpoint stops before tokens come back.

    Where ranks of tp share each expert, they gather what all of them received, and reduce what they
    return (Megatron-LM, core/transformer/moe/token_dispatcher.py, ``dispatch_postprocess``).
    """
    mesh, experts = setup.mesh, setup.model.sizes.experts
    if experts is None or mesh.ep * mesh.expert_tp == 1:
        return
    again = 2 - stops_early(setup) if setup.recompute == "full" else 0
    token = float(setup.tokens / mesh.tp * setup.model.sizes.hidden * setup.recipe.compute)
    each = count_sparse_layers(setup) * setup.batch.accumulation
    if mesh.ep > 1:
        ranks = _neighbours(setup, mesh.ep)
        copies = count_copies(setup, experts, ranks)
        one = Traffic(
            "all-to-all",
            "tokens",
            ranks,
            token * copies.ranks,
            (4 + again) * each,
            "layer",
            forwarded=token * copies.nodes,
        )
        yield from _lay_beside(one) if setup.overlap_experts else (one,)
    if mesh.expert_tp > 1:
        sharing = collectives.cut_group(collectives.build_group(setup, "tp"), mesh.expert_tp)
        whole = token * experts.active * mesh.expert_tp
        yield Traffic("all-gather", "tokens", sharing, whole, (2 + again / 2) * each, "layer")
        yield Traffic("reduce-scatter", "tokens", sharing, whole, (2 + again / 2) * each, "layer")


def _lay_beside(one: Traffic) -> Iterator[Traffic]:
    """Of a micro-batch's forward pass and another's backward pass side by side, all is sent beside
    all that is computed, and the backward pass is two thirds of that."""
    yield one._replace(times=one.times / 3, when="forward")
    yield one._replace(times=one.times * 2 / 3, when="backward")


def _neighbours(setup: Setup, size: int) -> RankGroup:
    """The first ``size`` of the ranks that experts are spread over."""
    axes: tuple[collectives.Axis, ...] = ("cp", "shard", "replicate")
    within = axes if setup.mesh.etp != 1 else ("tp", *axes)
    return collectives.cut_group(collectives.build_group(setup, *within), size)


def _pipeline(setup: Setup) -> Iterator[Traffic]:
    """Activations to the next stage and their gradients back, for each micro-batch and each part
    of the model that a stage holds. Ranks of tp send each their share and gather it there
    (Megatron-LM, arXiv 2104.04473, section 4.1). Where stages are interleaved, one part is sent
    while another is computed (core/pipeline_parallel/schedules.py)."""
    mesh, sizes = setup.mesh, setup.model.sizes
    if mesh.pp == 1:
        return
    payload = setup.tokens * sizes.hidden * setup.recipe.compute / mesh.tp
    if setup.measured is not None:
        payload = count_sent(setup, setup.measured)
    each = float(setup.batch.accumulation * setup.chunks)
    ranks, beside = collectives.build_group(setup, "pp"), setup.chunks > 1
    yield Traffic("send", "activations", ranks, payload, each, "forward" if beside else "boundary")
    yield Traffic("send", "activations", ranks, payload, each, "backward" if beside else "boundary")
