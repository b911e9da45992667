"""How much memory a setup needs: on the GPU that holds most, and on the node."""

from __future__ import annotations

from collections.abc import Sequence

from jobgen.named_tuple import NamedTuple
from jobgen.strategy.estimate import Component, GpuMemory, Moment
from jobgen.strategy.memory.activations import Kept, compute_kept
from jobgen.strategy.memory.memory_states import (
    GpuStates,
    PipelineStage,
    divide_states,
    list_stages,
)
from jobgen.strategy.memory.outside import (
    compute_cache,
    compute_checkpoint,
    compute_context,
    compute_node_memory,
)
from jobgen.strategy.memory.transient import compute_transient
from jobgen.strategy.setup import Setup
from jobgen.strategy.spec import TRAITS

__all__ = ["count_in_flight", "estimate", "find_peak"]

ERROR = 0.08
"""Half of the interval, as a part: what is published for the same setup differs by as much."""
STAGED = 0.15
"""The same with a pipeline, whose stages and micro-batches are never quite alike."""


class Parts(NamedTuple):
    """Bytes on one GPU at one moment."""

    moment: Moment
    params: float
    grads: float
    master: float
    moments: float
    gathered: float
    buckets: float
    activations: float
    logits: float
    temporary: float

    @property
    def total(self) -> float:
        """What torch has allocated."""
        return sum(self[1:])


def estimate(setup: Setup) -> GpuMemory:
    """The memory of the GPU that holds most, at its peak. Bytes."""
    moments = _list_moments(setup)
    peak = _find_largest(setup, moments)[1]
    beyond = {"cache": _cache(setup, peak), "context": compute_context(setup)}
    sizes = {**dict(zip(Parts._fields[1:], peak[1:], strict=True)), **beyond}
    # SHARD_GRAD_OP's parameters are sharded too: what it keeps gathered is counted by itself
    shrinks = _SHRINKS[3 if setup.strategy == "fsdp-grad-op" else TRAITS[setup.strategy].stage]
    components = tuple(
        Component(name, size, "", "", name in shrinks, _name_part(name, peak.moment, setup))
        for name, size in sizes.items()
    )
    whole = sum(sizes.values())
    error = STAGED if setup.mesh.pp > 1 else ERROR
    beside = compute_node_memory(setup)
    return GpuMemory(
        components,
        peak.moment,
        whole * (1 - error),
        whole * (1 + error),
        beside.host,
        beside.pinned,
        beside.nvme,
        compute_checkpoint(setup),
        tuple(_doubts(setup)),
        max(parts.total for _, parts in moments),
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


def find_peak(setup: Setup) -> tuple[PipelineStage, Parts]:
    """The stage of the pipeline whose GPUs reserve most, and what they hold then."""
    return _find_largest(setup, _list_moments(setup))


def _find_largest(
    setup: Setup, moments: Sequence[tuple[PipelineStage, Parts]]
) -> tuple[PipelineStage, Parts]:
    return max(moments, key=lambda each: each[1].total + _cache(setup, each[1]))


def _list_moments(setup: Setup) -> list[tuple[PipelineStage, Parts]]:
    return [(stage, parts) for stage in list_stages(setup) for parts in _moments(setup, stage)]


def _cache(setup: Setup, parts: Parts) -> float:
    return compute_cache(setup, parts.total, parts.activations, parts.logits)


_SHRINKS = {
    0: (),
    1: ("master", "moments"),
    2: ("grads", "master", "moments"),
    3: ("params", "grads", "master", "moments"),
}
"""Stage → what more data-parallel ranks make smaller."""


def _moments(setup: Setup, stage: PipelineStage) -> tuple[Parts, ...]:
    """The three moments that can be the peak of this stage."""
    states = divide_states(setup, stage)
    extra = compute_transient(setup, stage)
    micro = compute_kept(setup)
    flight = count_in_flight(setup, stage)
    stored = (stage.layers * micro.layer + _ends(setup, micro)) * flight
    if setup.offload_activations:
        stored = min(stored, 2 * micro.layer)
    logits, last, ending = (micro.logits, micro.last, micro.ending) if stage.last else (0.0,) * 3
    before = _grads_before(setup, states)
    rest = states._replace(grads=before)
    return (
        Parts("forward", *rest, extra.forward, extra.buckets, stored + last, logits, 0.0),
        Parts(
            "backward",
            *rest,
            extra.forward if extra.returning is None else extra.returning,
            extra.buckets,
            stored,
            0.0,
            max(micro.working, ending),
        ),
        Parts(
            "backward",
            *states,
            extra.backward,
            extra.buckets,
            micro.layer * flight,
            0.0,
            micro.working,
        ),
        # gathered parameters and buckets lie in pools of streams of their own, which stay
        Parts("step", *states, extra.pool, extra.buckets, 0.0, 0.0, extra.step),
        *_whole(setup, stage, states),
    )


def _whole(setup: Setup, stage: PipelineStage, states: GpuStates) -> tuple[Parts, ...]:
    """The model in 16 bits once more: FSDP's full state dict, or what is still to be quantized."""
    if not setup.keeps_full_copy:
        return ()
    again = 2.0 * stage.params
    params = states.params if setup.mesh.shard > 1 else 0.0
    return (Parts("load", params, 0.0, 0.0, states.moments, again, 0.0, 0.0, 0.0, 0.0),)


def count_in_flight(setup: Setup, stage: PipelineStage) -> float:
    """Micro-batches whose activations the stage holds at once: as many as there are stages behind
    it, with one-forward-one-backward (arXiv:2104.04473, section 2.2)."""
    pp, v = setup.mesh.pp, setup.chunks
    if pp == 1 or (stage.last and not stage.first):
        return 1.0
    most = min(pp, setup.batch.accumulation)
    return most if v == 1 else most * (1 + (pp - 1) / (pp * v))


def _ends(setup: Setup, micro: Kept) -> float:
    """Bytes of a stage's output, which it keeps until its gradient comes."""
    return micro.input if setup.mesh.pp > 1 else 0.0


def _grads_before(setup: Setup, states: GpuStates) -> float:
    """Gradients that exist when the backward pass begins: those of earlier micro-batches, or all
    where their memory is kept from step to step. FSDP's lie in the pool of a stream of their own.
    """
    if setup.step_in_backward:
        return 0.0
    sharded = setup.strategy.startswith("fsdp") and setup.mesh.shard > 1
    if setup.persistent_grads or setup.batch.accumulation > 1 or sharded:
        return states.grads
    return 0.0


def _doubts(setup: Setup) -> list[str]:
    said = []
    if setup.model.sizes.experts is not None:
        said.append("uneven load of experts")
    if setup.loose:
        said.append("varying lengths, which make the allocator's cache a guess")
    return said
