"""What ranks that share one copy of the model send: tensor, context, expert, pipeline parallel."""

from __future__ import annotations

from collections.abc import Iterator

from jobgen.strategy.setup import Setup
from jobgen.strategy.speed import collectives
from jobgen.strategy.speed.collectives import RankGroup, Traffic
from jobgen.strategy.speed.compute import stops_early
from jobgen.strategy.speed.expert_copies import count_copies
from jobgen.strategy.speed.measured_compute import count_sent
from jobgen.strategy.speed.sequence_traffic import list_context, list_tensor
from jobgen.strategy.speed.stage_slice import count_sparse_layers


def list_model_traffic(setup: Setup) -> Iterator[Traffic]:
    """All that they send in one step, in the order of the axes."""
    yield from list_tensor(setup)
    yield from list_context(setup)
    yield from _experts(setup)
    yield from _pipeline(setup)


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
    each = count_sparse_layers(setup) * setup.batch.accumulation
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
        yield from _lay_beside(one, setup) if setup.overlap_experts else (one,)
    if mesh.expert_tp > 1:
        sharing = collectives.cut_group(collectives.build_group(setup, "tp"), mesh.expert_tp)
        whole = token * experts.active * mesh.expert_tp
        yield from _gather_tokens(sharing, whole, (2 + again / 2) * each)


def _gather_tokens(ranks: RankGroup, payload: float, times: float) -> Iterator[Traffic]:
    """What ranks gather for experts that they share, and the reduction of what these return."""
    yield Traffic("all-gather", "tokens", ranks, payload, times, "layer")
    yield Traffic("reduce-scatter", "tokens", ranks, payload, times, "layer")


def _lay_beside(one: Traffic, setup: Setup) -> Iterator[Traffic]:
    """Half of it beside the forward pass of another micro-batch, half beside the backward pass: the
    first forward pass and the last backward pass lie beside no other (Megatron-LM,
    core/pipeline_parallel/combined_1f1b.py)."""
    alone = one.times / setup.batch.accumulation
    half = (one.times - alone) / 2
    yield one._replace(times=alone)
    yield one._replace(times=half, when="blocks forward")
    yield one._replace(times=half, when="blocks backward")


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
