"""Seconds of a step: computing, what is sent beside it, what waits, and the optimizer."""

from __future__ import annotations

from collections.abc import Sequence

from jobgen.named_tuple import NamedTuple
from jobgen.strategy.estimate import ClusterHardware, StepTime, Volume
from jobgen.strategy.setup import Setup, get_work_unit
from jobgen.strategy.spec import TRAITS
from jobgen.strategy.speed import (
    collectives,
    compute,
    copies,
    host_update,
    kernels,
    measured_compute,
    rates,
    traffic,
)
from jobgen.strategy.speed.collectives import Collective, Load, Traffic, When
from jobgen.strategy.speed.compute import LayerTimes
from jobgen.strategy.speed.stage_slice import count_largest_stage
from jobgen.strategy.speed.step_formulas import format_formulas

_BESIDE: dict[When, dict[Collective, str]] = {
    "product": {"all-gather": "gathers", "reduce-scatter": "reduces", "all-reduce": "reduces"},
    "gradient": {"all-gather": "reduces", "reduce-scatter": "gathers"},
    "recomputed": {"all-gather": "recomputed"},
}
"""Products beside which tp sends: the gradient of a result is gathered for the product that made
the result, and that of an input is reduced after the one that took the input."""


_BLOCKS: dict[When, str] = {"blocks forward": "forward", "blocks backward": "backward"}
"""Passes of another micro-batch's layer with experts, in two blocks of which tokens are sent. Both
wait for each other after each block: what the backward pass combines goes beside attention's
forward pass, what the forward pass dispatches beside experts' backward pass, and vice versa
(Megatron-LM, core/models/common/model_chunk_schedule_plan.py,
``TransformerLayerSchedulePlan.run``)."""


class Passes(NamedTuple):
    """Seconds of one micro-batch on the busiest stage of the pipeline."""

    forward: float
    backward: float
    attention: float
    """Of both, what keys and values can travel beside."""

    @property
    def both(self) -> float:
        """Forward and backward."""
        return self.forward + self.backward


def compute_step(setup: Setup, machine: ClusterHardware) -> StepTime:
    """How long one step of the optimizer takes, by what takes the time.

    Seconds. What can be sent beside the forward or the backward pass is exposed only as far as it
    takes longer, with the first or the last of it, which nothing lies beside.
    """
    mesh, micro = setup.mesh, setup.batch.accumulation
    stages = _list_stages(setup, machine)
    passes = _add_copies(max(stages, key=lambda stage: stage.both), setup, machine)
    found, beside = _exposed(setup, machine, passes)
    inside = sum(v.exposed for v in found if v.what.endswith(("activations", "tokens", "values")))
    slowest = rates.SLOWEST if mesh.world > 1 else 1.0
    computing = slowest * (passes.both * micro + rates.CONTENTION * beside)
    each = (computing + inside) / micro
    bubble = _count_waits(stages) / setup.chunks * each
    update, moved = _update(setup, machine, passes)
    flops = _count_flops(setup) * micro / mesh.tp / mesh.pp
    return StepTime(
        compute=computing,
        volumes=tuple(found),
        bubble=bubble,
        update=update,
        offload=moved,
        work=float(setup.batch.total * setup.seq),
        ranks=mesh.world,
        flops=flops,
        efficiency=flops / computing / machine.peak,
        why=tuple(format_formulas(setup, machine, (passes.forward, passes.backward), found)),
        unit=get_work_unit(setup),
    )


def _count_flops(setup: Setup) -> float:
    """Model FLOPs of one micro-batch on all ranks of tp and pp."""
    if setup.measured is not None:
        return measured_compute.count_measured_flops(setup)
    return compute.count_flops(setup) * setup.tokens


def _count_waits(stages: Sequence[Passes]) -> float:
    """How many micro-batches of the busiest stage all the others take for one.

    So long it waits for the first forward pass to come and for the last backward pass to end: one
    micro-batch takes the sum of all stages, and each later one the busiest (1F1B, arXiv
    2104.04473). Where stages are alike, that is one less than there are.
    """
    busiest = max(stage.both for stage in stages)
    return sum(stage.both for stage in stages) / busiest - 1


def _add_copies(busiest: Passes, setup: Setup, machine: ClusterHardware) -> Passes:
    """Times of one micro-batch with what sharding copies."""
    copied, speed = copies.count_copied(setup), rates.get_memory_rate(machine)
    return busiest._replace(
        forward=busiest.forward + copied.forward / speed,
        backward=busiest.backward + copied.backward / speed,
    )


def _list_stages(setup: Setup, machine: ClusterHardware) -> list[Passes]:
    """Times of one micro-batch on each stage of the pipeline."""
    if setup.measured is not None:
        return _list_measured(setup, machine)
    one, out = compute.compute_layer(setup, machine), compute.compute_head(setup, machine)
    count, pp = setup.model.sizes.layers, setup.mesh.pp
    least, more = divmod(count, pp)
    first = [_stage(setup, one, least + (i < more), None) for i in range(pp - 1)]
    return [*first, _stage(setup, one, least, out)]


def _list_measured(setup: Setup, machine: ClusterHardware) -> list[Passes]:
    """Of a measured model, whose backward pass has what is computed again."""
    twice = 2 + (setup.recompute == "full")
    return [
        Passes(
            max(one.forward, one.calls * rates.HOST_CALL),
            max(one.backward, twice * one.calls * rates.HOST_CALL),
            one.attention,
        )
        for one in measured_compute.compute_stages(setup, machine)
    ]


def _stage(setup: Setup, one: LayerTimes, layers: int, out: LayerTimes | None) -> Passes:
    """Forward and backward of so many layers; Python may be slower than the GPU."""
    forward, backward = one.forward * layers, one.backward * layers
    calls = one.calls * layers
    again = _again(setup, one) * layers
    attention = one.attention * layers * (4.5 if setup.recompute == "full" else 3.5)
    if out is not None:
        forward, backward = forward + out.forward, backward + out.backward
        calls += out.calls
    host = rates.COMPILED_CALL if setup.compiled else rates.HOST_CALL
    twice = 2 + (setup.recompute == "full")
    restored = setup.recompute == "full" and setup.framework.startswith("megatron")
    added = one.added + restored * kernels.RANDOM_OPS
    hooks = kernels.count_hooks(setup) * layers
    return Passes(
        max(forward, (calls + hooks) * host),
        max(backward + again, (twice * calls + (twice - 1) * hooks + added * layers) * host),
        attention,
    )


def _again(setup: Setup, one: LayerTimes) -> float:
    """Seconds of a layer that the backward pass computes again.

    Selective: what stands between queries, keys and values and their result (Megatron-LM, arXiv
    2205.05198); in torchtitan all but attention and every second product with weights
    (torchtitan/distributed/activation_checkpoint.py: "all compute ops, except every second mm").
    Full: everything, or all but the products that no gradient needs.
    """
    if setup.recompute == "none":
        return 0.0
    if setup.recompute == "full":
        again = one.forward - one.tail * compute.stops_early(setup)
        return again / setup.recompute_every
    if setup.framework == "torchtitan":
        return one.forward - one.attention - one.products / 2
    return one.attention


def _exposed(setup: Setup, machine: ClusterHardware, passes: Passes) -> tuple[list[Volume], float]:
    """Every volume, with the part of its seconds that nothing is computed beside; and the seconds
    of all in which something is."""
    mesh, micro = setup.mesh, setup.batch.accumulation
    slower = 1 / (1 - rates.CONTENTION)  # what is sent slows down what it is sent beside
    room = {
        "forward": passes.forward * micro * slower,
        "backward": passes.backward * micro * slower,
        "last": passes.backward * slower,
        "ring": passes.attention * micro * (mesh.cp - 1) / mesh.cp,
        "start": passes.attention * micro / mesh.cp,
    }
    idle = _wait_inside(setup, machine)
    found: list[Volume] = []
    beside = 0.0
    for one in traffic.list_traffic(setup):
        sent, took = traffic.sum_loads(one, machine)
        length = collectives.compute_seconds(took)
        open_ = length
        if one.when in room:
            covered = max(0.0, length - _alone(one, machine, micro))
            computing = _use(room, one.when, covered)
            waiting = _use(idle, one.when, covered - computing) if took.network > took.node else 0.0
            open_ = length - computing - waiting
            beside += computing
        elif one.when in _BESIDE:
            open_ = length * _stick_out(one, setup, machine)
            beside += length - open_
        elif one.when in _BLOCKS:
            covered = length * (1 - _stick_out_of_blocks(one, setup, machine))
            computing = _use(room, _BLOCKS[one.when], covered)
            open_ = length - computing
            beside += computing
        longer = Load(open_, 0.0) if took.node >= took.network else Load(0.0, open_)
        found.extend(traffic.split_volumes(one, sent, took, longer))
    return found, beside


def _wait_inside(setup: Setup, machine: ClusterHardware) -> dict[str, float]:
    """Seconds of each pass in which layers wait for links inside of nodes: the network is free."""
    waits = 0.0
    for one in traffic.list_traffic(setup):
        _, took = traffic.sum_loads(one, machine)
        if not took.network and (one.when == "layer" or one.when in _BESIDE):
            open_ = _stick_out(one, setup, machine) if one.when in _BESIDE else 1.0
            waits += took.node * open_
    ahead = waits / (2 + (setup.recompute == "full"))
    back = waits - ahead
    return {"forward": ahead, "backward": back, "last": back / setup.batch.accumulation}


def _use(room: dict[str, float], when: str, length: float) -> float:
    """How much of ``length`` there is room for, which is then less."""
    used = min(length, room.get(when, 0.0))
    room[when] = room.get(when, 0.0) - used
    return used


def _stick_out(one: Traffic, setup: Setup, machine: ClusterHardware) -> float:
    """Part of what tp sends that takes longer than the product beside it."""
    _, took = collectives.time_collective(one.what, one.ranks, one.payload, machine)
    each = collectives.compute_seconds(took)
    neighbors = compute.compute_neighbors(compute.keep_what_counts(setup), machine)
    beside: compute.Neighbors = getattr(neighbors, _BESIDE[one.when][one.what])
    return sum(max(0.0, each - product) for product in beside) / (2 * each)


def _stick_out_of_blocks(one: Traffic, setup: Setup, machine: ClusterHardware) -> float:
    """Part of what tokens take that is longer than the block of computing beside each exchange."""
    each = collectives.compute_seconds(traffic.sum_loads(one._replace(times=1), machine)[1])
    blocks = compute.compute_blocks(compute.keep_what_counts(setup), machine)
    beside: compute.Neighbors = getattr(blocks, _BLOCKS[one.when])
    slower = 1 / (1 - rates.CONTENTION)
    return sum(max(0.0, each - block * slower) for block in beside) / (2 * each)


def _alone(one: Traffic, machine: ClusterHardware, micro: int) -> float:
    """Seconds of the first, or the last, which nothing lies beside."""
    if not one.first:
        return 0.0
    each = collectives.compute_seconds(
        collectives.time_collective(one.what, one.ranks, one.first, machine)[1]
    )
    return each * (micro if one.when != "last" else 1)


def _update(setup: Setup, machine: ClusterHardware, passes: Passes) -> tuple[float, float]:
    """Seconds of the optimizer's work, and of moving what is offloaded.

    In place: parameters, gradients, master and moments are read, and all but gradients written. One
    kernel for each operation instead, as PyTorch's foreach Adam, reads and writes 20 fp32 values of
    each element.
    """
    trait, recipe, mesh = TRAITS[setup.strategy], setup.recipe, setup.mesh
    mine = count_largest_stage(setup, learned=True).params
    shards = mesh.shard * mesh.cp if trait.stage else 1
    local = mine / shards
    states = recipe.params + recipe.master + recipe.moments
    hidden = (setup, machine, passes.forward, passes.backward)
    moved = host_update.compute_activation_copies(*hidden)
    moved += host_update.compute_parameter_copies(*hidden)
    cast = _cast_gathered(setup, local) / rates.get_memory_rate(machine)
    if setup.offload.optimizer:
        update, copied = host_update.compute_host_update(
            setup, machine, local, states, passes.backward
        )
        return update + cast, moved + copied
    bytes_ = (2 * states + recipe.grads) if setup.fused_step else 20 * rates.FP32
    bytes_ += host_update.count_clipping(setup) * recipe.grads
    update = local * bytes_ / rates.get_memory_rate(machine)
    return update + cast, moved


def _cast_gathered(setup: Setup, local: float) -> float:
    """Bytes of casting a rank's ``local`` parameters whenever they are gathered in a narrower type
    than they are stored in."""
    recipe = setup.recipe
    if recipe.params <= recipe.compute:
        return 0.0
    gathers = setup.batch.accumulation * (1 + traffic.gathers_again(setup))
    return local * (recipe.params + recipe.compute) * gathers
