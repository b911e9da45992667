"""How much memory a setup needs: on the GPU that holds most, and on the node."""

from __future__ import annotations

from collections.abc import Iterator

from jobgen.named_tuple import NamedTuple
from jobgen.strategy.estimate import INTERVAL, Component, GpuMemory, Moment
from jobgen.strategy.memory.activations import Kept, compute_kept
from jobgen.strategy.memory.gpu_parts import Parts
from jobgen.strategy.memory.measured_moments import list_measured_moments, list_staged_moments
from jobgen.strategy.memory.memory_states import (
    GpuStates,
    PipelineStage,
    count_shards,
    count_whole_grads,
    divide_states,
    list_stages,
)
from jobgen.strategy.memory.outside import (
    compute_cache,
    compute_checkpoint,
    compute_context,
    compute_node_memory,
)
from jobgen.strategy.memory.transient import Transient, compute_transient
from jobgen.strategy.setup import Setup
from jobgen.strategy.spec import TRAITS

__all__ = ["count_in_flight", "estimate", "find_peak", "list_moments"]


def estimate(setup: Setup) -> GpuMemory:
    """The memory of the GPU that holds most, when torch has allocated most. Bytes."""
    stage, peak, _, reserved = find_peak(setup)
    beyond = {"context": compute_context(setup), "cache": reserved - peak.allocated}
    sizes = {**dict(zip(Parts._fields[1:-1], peak[1:-1], strict=True)), **beyond}
    # SHARD_GRAD_OP's parameters are sharded too: what it keeps gathered is counted by itself
    shrinks = _SHRINKS[3 if setup.strategy == "fsdp-grad-op" else TRAITS[setup.strategy].stage]
    components = tuple(
        Component(name, size, "", "", name in shrinks, _name_part(name, peak.moment, setup))
        for name, size in sizes.items()
    )
    whole = sum(sizes.values())
    low, high = INTERVAL
    beside = compute_node_memory(setup)
    return GpuMemory(
        components,
        peak.moment,
        whole * low,
        whole * high,
        beside.host,
        beside.pinned,
        beside.nvme,
        compute_checkpoint(setup),
        tuple(_doubts(setup)),
        stage.number if setup.mesh.pp > 1 else None,
    )


_LABELS = {
    "cache": "allocator cache",
    "context": "CUDA context",
    "temporary": "temporary tensors",
}
"""Component → its name in PyTorch's words, where its own leaves a reader guessing."""


def _name_part(name: str, moment: Moment, setup: Setup) -> str:
    """What a component is in this setup: a strategy that shards no parameters gathers none."""
    if name != "gathered":
        return _LABELS.get(name, "")
    if moment == "load":
        return "full copy"
    trait = TRAITS[setup.strategy]
    sharded = trait.stage and setup.mesh.shard * setup.mesh.cp > 1
    return "" if sharded else "16-bit copies"


class Peak(NamedTuple):
    """The most that torch allocates on a GPU, and the most that it reserves."""

    stage: PipelineStage
    """Of the pipeline, whose GPUs allocate most."""
    parts: Parts
    """What they have allocated then."""
    idle: float
    """What is freed and lies in the pools of other streams when most is reserved. Bytes."""
    reserved: float
    """Bytes, cache included. Most may be reserved at another moment; memory stays reserved from one
    step to the next, so that the rest of it is cache while most is allocated."""


def find_peak(setup: Setup) -> Peak:
    """When torch allocates most, on which stage of the pipeline; and how much it reserves."""
    moments = list_moments(setup)
    stage, parts = max(moments, key=lambda each: each[1].allocated)
    reserved, idle = max((each.total + _cache(setup, each), each.idle) for _, each in moments)
    return Peak(stage, parts, idle, reserved)


def list_moments(setup: Setup) -> list[tuple[PipelineStage, Parts]]:
    """What the GPUs of each stage hold at each moment that can be the peak."""
    return [(stage, parts) for stage in list_stages(setup) for parts in _moments(setup, stage)]


def _cache(setup: Setup, parts: Parts) -> float:
    return compute_cache(setup, parts.allocated, parts.activations, parts.logits)


_SHRINKS = {
    0: (),
    1: ("master", "moments"),
    2: ("grads", "master", "moments"),
    3: ("params", "grads", "master", "moments"),
}
"""Stage → what more data-parallel ranks make smaller."""


def _moments(setup: Setup, stage: PipelineStage) -> tuple[Parts, ...]:
    """The moments that can be the peak of this stage."""
    states = divide_states(setup, stage)
    extra = compute_transient(setup, stage)
    before, idle = _grads_before(setup, stage, states)
    rest = states._replace(grads=before)
    pools = extra.buckets if _has_pools(setup) else 0.0
    buckets = extra.buckets - pools
    if setup.measured is not None:
        if setup.mesh.pp > 1:
            return tuple(list_staged_moments(setup, stage, states, extra))
        return tuple(list_measured_moments(setup, states, rest, extra, (idle, pools)))
    ending = states
    if setup.longest_first:
        ending = states._replace(grads=count_whole_grads(setup, stage) or states.grads)
    counted = _list_counted_moments(setup, stage, (ending, rest), extra, (idle, pools))
    # gathered parameters and buckets lie in pools of streams of their own, which stay
    step = Parts("step", *states, 0.0, buckets, 0.0, 0.0, extra.step, extra.pool + pools)
    return (*counted, step, *_whole(setup, stage, states))


def _list_counted_moments(
    setup: Setup,
    stage: PipelineStage,
    states: tuple[GpuStates, GpuStates],
    extra: Transient,
    idle: tuple[float, float],
) -> tuple[Parts, ...]:
    """The moments of a forward and a backward pass whose activations are counted. ``states`` are
    all of them, and those when the backward pass begins; ``idle`` are bytes of gradients and of
    pools that are freed by then and stay reserved."""
    whole, begun = states
    free, buckets = sum(idle) + extra.staged, extra.buckets - idle[1]
    micro = compute_kept(setup)
    flight = count_in_flight(setup, stage)
    stored = (stage.layers * micro.layer + _ends(setup, micro)) * flight
    if setup.offload_activations:
        stored = min(stored, 2 * micro.layer)
    logits, last, ending = (micro.logits, micro.last, micro.ending) if stage.last else (0.0,) * 3
    cache, before = stage.layers * micro.cache, stage.layers * micro.before
    ahead = (stored + last + cache + before, logits, 0.0, free)
    returning = extra.forward if extra.returning is None else extra.returning
    flattened = setup.adapters is not None and setup.adapters.flattened
    working = max(micro.working, micro.held + extra.pieces) if flattened else micro.working
    until_end = 2 * stored if _keeps_inputs(setup) else micro.layer * flight
    return (
        Parts("forward", *begun, extra.forward - extra.staged, buckets, *ahead),
        Parts(
            "backward",
            *begun,
            returning - extra.staged,
            buckets + extra.first_inputs,
            stored + cache,
            0.0,
            max(working, ending),
            free,
        ),
        *_end_backward(setup, whole, extra, until_end + cache, working),
        *_accumulate(setup, stage, whole, extra, (stored + cache, working, micro.held)),
    )


def _end_backward(
    setup: Setup, states: GpuStates, extra: Transient, stored: float, working: float
) -> Iterator[Parts]:
    """The end of a backward pass: its first layer, and FSDP's root, whose gradients are reduced
    when that layer has gone (torch 2.13, distributed/fsdp/_runtime_utils.py,
    ``_post_backward_hook``, which waits for all of a unit's gradients)."""
    if extra.layer_end is None or not _has_pools(setup) or setup.mesh.pp > 1:
        gathered = extra.backward - extra.staged
        yield Parts(
            "backward", *states, gathered, extra.reduced, stored, 0.0, working, extra.staged
        )
        return
    # FSDP1's pool holds the larger of both; FSDP2 has none
    layer = extra.layer_inputs
    idle = max(extra.buckets - layer, 0.0) + extra.staged
    gathered = extra.layer_end - extra.staged
    yield Parts("backward", *states, gathered, layer, stored, 0.0, working, idle)
    yield Parts("backward", *states, extra.root_end, extra.reduced, stored, 0.0, 0.0)


def _accumulate(
    setup: Setup,
    stage: PipelineStage,
    states: GpuStates,
    extra: Transient,
    micro: tuple[float, float, float],
) -> Iterator[Parts]:
    """The backward pass of a micro-batch whose gradients FSDP1 adds to whole ones: the new gradient
    of a unit, and of the root, is made of pieces, and is there beside that which it is added to.
    ``micro`` are bytes of its activations, of what is there while a layer goes backward, and of
    held logits; nothing is known of micro-batches that are shorter than the first."""
    kept = count_whole_grads(setup, stage)
    if not kept or TRAITS[setup.strategy].family != "fsdp":
        return
    states = states._replace(grads=kept)
    stored, working, held = (0.0, 0.0, 0.0) if setup.longest_first else micro
    unit, root = extra.pieces, extra.root_pieces
    working = max(working, held + unit)
    gathered = extra.forward - extra.staged
    # of two micro-batches, the first adds to nothing
    several = setup.batch.accumulation > 2
    new = unit if several else 0.0
    yield Parts("backward", *states, gathered, new, stored, 0.0, working, extra.staged)
    if root:
        new = root if several else 0.0
        yield Parts("backward", *states, extra.root, new, 0.0, 0.0, held + root, extra.staged)


def _whole(setup: Setup, stage: PipelineStage, states: GpuStates) -> tuple[Parts, ...]:
    """The model in 16 bits once more: FSDP's full state dict."""
    if not setup.keeps_full_copy:
        return ()
    again = 2.0 * stage.params
    params = states.params if setup.mesh.shard > 1 else 0.0
    return (Parts("load", params, 0.0, 0.0, states.moments, again, 0.0, 0.0, 0.0, 0.0),)


def count_in_flight(setup: Setup, stage: PipelineStage) -> float:
    """Micro-batches whose activations the stage holds at once: as many as there are stages behind
    it, with one-forward-one-backward (arXiv:2104.04473, section 2.2). Of v interleaved parts, each
    a v-th, the last stage has run (v - 1) p before its first backward pass (Megatron-LM,
    core/pipeline_parallel/schedules.py, ``get_pp_rank_microbatches``)."""
    pp, v = setup.mesh.pp, setup.chunks
    if pp == 1:
        return 1.0
    most = min(pp, setup.batch.accumulation)
    if stage.last and not stage.first:
        return ((v - 1) * most + 1) / v
    return most if v == 1 else most * (1 + (pp - 1) / (pp * v))


def _ends(setup: Setup, micro: Kept) -> float:
    """Bytes of a stage's output, which it keeps until its gradient comes."""
    return micro.input if setup.mesh.pp > 1 else 0.0


def _has_pools(setup: Setup) -> bool:
    """Whether FSDP reduces in a stream of its own, whose memory no other stream takes."""
    return TRAITS[setup.strategy].family in {"fsdp", "fsdp2"} and count_shards(setup) > 1


def _grads_before(setup: Setup, stage: PipelineStage, states: GpuStates) -> tuple[float, float]:
    """Gradients that exist when the backward pass begins: those of earlier micro-batches, or all
    where their memory is kept from step to step. And those that are freed, but lie in the pool of
    FSDP's stream.
    """
    if setup.step_in_backward or setup.longest_first:
        return 0.0, 0.0
    whole = count_whole_grads(setup, stage)
    several = setup.batch.accumulation > 1
    if _has_pools(setup) and (whole or not several):
        return whole, states.grads
    return (states.grads if setup.persistent_grads or several else 0.0), 0.0


def _keeps_inputs(setup: Setup) -> bool:
    """Whether every checkpointed input stays, with its gradient, until the backward pass ends.

    FSDP1 hooks onto the inputs of a unit that is all frozen, and lets go of them in the end (torch
    2.13, distributed/fsdp/_runtime_utils.py, ``_register_post_backward_reshard_only_hook``);
    reentrant checkpointing makes these inputs leaves, which keep their gradients. A checkpoint
    inside a unit makes leaves of tensors that have no hooks.
    """
    frozen = setup.adapters is not None and TRAITS[setup.strategy].family == "fsdp"
    leaves = setup.reentrant and setup.recompute == "full" and not setup.checkpoints_inside
    return frozen and leaves


def _doubts(setup: Setup) -> list[str]:
    said = []
    if setup.model.sizes.experts is not None:
        said.append("uneven load of experts")
    if setup.loose:
        said.append("varying lengths, which make the allocator's cache a guess")
    return said
