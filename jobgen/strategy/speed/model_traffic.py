"""What ranks that share one copy of the model send: tensor, context, expert, pipeline parallel."""

from __future__ import annotations

from collections.abc import Iterator

from jobgen.strategy.setup import Setup
from jobgen.strategy.shapes.architecture import has_experts
from jobgen.strategy.speed import collectives, rates
from jobgen.strategy.speed.collectives import RankGroup, Traffic, When
from jobgen.strategy.speed.compute import stops_early
from jobgen.strategy.speed.expert_copies import count_copies
from jobgen.strategy.speed.measured_compute import count_sent

_GATHERS_KEYS = ("torchtitan",)
"""Frameworks whose context parallel is torch's."""


def list_model_traffic(setup: Setup) -> Iterator[Traffic]:
    """All that they send in one step, in the order of the axes."""
    yield from _tensor(setup)
    yield from _context(setup)
    yield from _experts(setup)
    yield from _pipeline(setup)


def _tensor(setup: Setup) -> Iterator[Traffic]:
    """Two all-reduces of s b h forward in each layer and two backward; with sequence parallel as
    many bytes in all-gathers and reduce-scatters (Megatron-LM, arXiv 1909.08053 section 3, and
    2205.05198 section 4.2.2). A recomputed forward pass sends again; torchtitan's selective one
    keeps what it reduced, and gathers again (torchtitan/distributed/activation_checkpoint.py).

    Backward, Megatron reduces the input's gradient beside the product that makes the weights', and
    gathers the input, of which each rank kept its part, beside the one that makes that gradient
    (core/tensor_parallel/layers.py, LinearWithGradAccumulationAndAsyncCommunication). Its experts
    take the tokens of each rank as they are divided along the sequence: there, attention alone
    gathers and reduces.
    """
    mesh = setup.mesh
    if mesh.tp == 1:
        return
    ranks = collectives.build_group(setup, "tp")
    payload = float(setup.tokens * setup.model.sizes.hidden * setup.recipe.compute)
    each = 2.0 * _layers(setup) * setup.batch.accumulation
    if setup.framework == "megatron" and setup.sequence_parallel:
        each -= _sparse_layers(setup) * setup.batch.accumulation
    again = 1 + (setup.recompute == "full")
    beside: When = "product" if setup.overlap_tp else "layer"
    reduced: When = "backward" if setup.framework == "megatron" else beside
    if not setup.sequence_parallel:
        yield Traffic("all-reduce", "activations", ranks, payload, each * again, beside)
        yield Traffic("all-reduce", "activations", ranks, payload, each, reduced)
        return
    yield Traffic("all-gather", "activations", ranks, payload, each * again, beside)
    yield Traffic("reduce-scatter", "activations", ranks, payload, each * again, beside)
    some = setup.recompute == "selective" and setup.framework == "torchtitan"
    yield Traffic("all-gather", "activations", ranks, payload, each * (1 + some), beside)
    if setup.framework == "megatron":
        yield Traffic("all-gather", "activations", ranks, payload, each, "backward")
    yield Traffic("reduce-scatter", "activations", ranks, payload, each, reduced)


def _context(setup: Setup) -> Iterator[Traffic]:
    """Keys and values go round a ring: cp - 1 sends of this rank's forward, and twice that
    backward, with their gradients (Ring Attention, arXiv 2310.01889).

    torch gathers all of them beside the first step, both ways, and sends gradients of fp32 on
    (torch/distributed/tensor/experimental/_context_parallel/_attention.py, ``_AllGatherRotater``).
    """
    mesh, sizes = setup.mesh, setup.model.sizes
    if mesh.cp == 1:
        return
    width = sizes.mla.kv_rank + sizes.mla.rope_dim if sizes.mla else 2 * _kv(setup)
    elements = float(setup.tokens * width)
    payload = elements * setup.recipe.compute
    ranks, each = collectives.build_group(setup, "cp"), _layers(setup) * setup.batch.accumulation
    passes = 1 + (setup.recompute == "full")
    if setup.framework in _GATHERS_KEYS:
        times = (passes + 1) * each
        yield Traffic("all-gather", "keys and values", ranks, payload * mesh.cp, times, "start")
        wide = elements * rates.FP32
        yield Traffic("send", "gradients of keys and values", ranks, wide, mesh.cp * each, "ring")
        return
    times = float((passes + 2) * (mesh.cp - 1) * each)
    yield Traffic("send", "keys and values", ranks, payload, times, "ring")


def _kv(setup: Setup) -> float:
    sizes = setup.model.sizes
    heads = sizes.heads if setup.repeat_kv else sizes.kv_heads
    return max(heads / setup.mesh.tp, 1.0) * sizes.head_dim


def _experts(setup: Setup) -> Iterator[Traffic]:
    """Tokens go to their experts and back, forward and backward: four all-to-alls in each layer
    that has experts, and more where the forward pass is recomputed (GShard, arXiv 2006.16668):
    two, or one where torch's checkpoint stops before tokens come back.

    Where ranks of tp share each expert, they gather what all of them received, and reduce what they
    return (Megatron-LM, core/transformer/moe/token_dispatcher.py, ``dispatch_postprocess``). Its
    other way is to gather all tokens first (``MoEAllGatherTokenDispatcher``).
    """
    mesh, experts = setup.mesh, setup.model.sizes.experts
    if experts is None or mesh.ep * mesh.expert_tp == 1:
        return
    again = 2 - stops_early(setup) if setup.recompute == "full" else 0
    token = float(setup.tokens / mesh.tp * setup.model.sizes.hidden * setup.recipe.compute)
    each = _sparse_layers(setup) * setup.batch.accumulation
    if setup.gathers_tokens:
        ranks = collectives.build_group(setup, "tp", "cp", "shard", "replicate")
        group = collectives.cut_group(ranks, mesh.ep * mesh.expert_tp)
        yield from _gather_tokens(group, token * group.size, (2 + again / 2) * each)
        return
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
            fused=setup.fused_dispatch,
        )
        yield from _lay_beside(one) if setup.overlap_experts else (one,)
    if mesh.expert_tp > 1:
        sharing = collectives.cut_group(collectives.build_group(setup, "tp"), mesh.expert_tp)
        whole = token * experts.active * mesh.expert_tp
        yield from _gather_tokens(sharing, whole, (2 + again / 2) * each)


def _gather_tokens(ranks: RankGroup, payload: float, times: float) -> Iterator[Traffic]:
    """What ranks gather for experts that they share, and the reduction of what these return."""
    yield Traffic("all-gather", "tokens", ranks, payload, times, "layer")
    yield Traffic("reduce-scatter", "tokens", ranks, payload, times, "layer")


def _lay_beside(one: Traffic) -> Iterator[Traffic]:
    """Of a micro-batch's forward pass and another's backward pass side by side, all is sent beside
    all that is computed, and the backward pass is two thirds of that."""
    yield one._replace(times=one.times / 3, when="forward")
    yield one._replace(times=one.times * 2 / 3, when="backward")


def _sparse_layers(setup: Setup) -> float:
    """Layers with experts of one stage, on the average."""
    layers = setup.model.layers
    sparse = sum(each.times for each in layers if has_experts(each.tensors))
    return sparse / setup.mesh.pp


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


def _layers(setup: Setup) -> float:
    """Layers of the busiest stage."""
    return float(-(-setup.model.sizes.layers // setup.mesh.pp))
