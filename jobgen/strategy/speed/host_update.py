"""Seconds of an optimizer whose states lie in the host's memory, and of copies over PCIe."""

from __future__ import annotations

from jobgen.strategy.estimate import ClusterHardware
from jobgen.strategy.setup import Setup
from jobgen.strategy.spec import TRAITS
from jobgen.strategy.speed import rates, traffic
from jobgen.strategy.speed.stage_slice import count_largest_stage, count_stored_bytes

_CHECKS = 60
"""Bytes of a 16-bit gradient's element that ZeRO-1 and ZeRO-2 read and write on the GPU before they
copy it (deepspeed/runtime/zero/stage_1_and_2.py): 18 for its norm in fp64
(``set_norm_for_param_grad_in_gpu``), 36 to look for inf and nan, an operation each
(``_has_inf_or_nan``), and 6 to make it fp32 (``async_inplace_copy_grad_to_fp32_buffer_from_gpu``).
"""

_OFFLOADS_BESIDE = ("torchtune",)
"""Frameworks that move checkpoints to the host beside what they compute."""

_UNCLIPPED = ("torchtune",)
"""Frameworks that clip no gradients by default (torchtune, recipes/full_finetune_distributed.py,
``clip_grad_norm``)."""


def count_clipping(setup: Setup) -> int:
    """Passes over gradients by which a framework clips them: two read, and one writes."""
    return 0 if setup.framework in _UNCLIPPED else 3


def compute_host_update(
    setup: Setup, machine: ClusterHardware, local: float, states: float, backward: float
) -> tuple[float, float]:
    """Seconds of the optimizer on the host, and of what is copied for it.

    ``local`` are the parameters of a rank, ``states`` the bytes of each and ``backward`` the
    seconds of a micro-batch's backward pass. All ranks of a node share its memory, or those of a
    Grace its own.
    """
    ranks = min(setup.world_per_node, setup.mesh.world)
    graces = (gpus for name, gpus in rates.ON_A_GRACE.items() if machine.gpu.startswith(name))
    ranks = min(ranks, next(graces, ranks))
    run = _run_deepspeed if TRAITS[setup.strategy].family == "zero" else _run_fsdp
    update, moved = run(setup, machine, local, ranks, backward)
    if setup.offload.to == "nvme":
        moved += 2 * states * local * ranks / machine.disk
    return update, moved


def compute_parameter_copies(
    setup: Setup, machine: ClusterHardware, forward: float, backward: float
) -> float:
    """Seconds of bringing a rank's part of all parameters to the GPU, as far as computing does not
    hide them. ``forward`` and ``backward`` are the seconds of a micro-batch's passes.

    The copy is part of each gather, in a stream beside the one that computes: of what is stored, in
    FSDP (torch 2.13, distributed/fsdp/_flat_param.py, ``pre_unshard``, and
    _fully_shard/_fsdp_param.py, ``all_gather_inputs``), and of 16-bit parameters in ZeRO-3
    (deepspeed/runtime/zero/partition_parameters.py, ``_all_gather_dtype``).
    """
    if not setup.offload.params:
        return 0.0
    stored = count_stored_bytes(setup)
    if TRAITS[setup.strategy].family == "zero":
        learned = count_largest_stage(setup, learned=True).params
        stored += (setup.recipe.compute - setup.recipe.params) * learned
    each = stored / (setup.mesh.shard * setup.mesh.cp) / machine.host
    late = max(0.0, each - forward)
    if traffic.gathers_again(setup):
        late += max(0.0, each - backward)
    return late * setup.batch.accumulation


def _run_fsdp(
    setup: Setup, machine: ClusterHardware, local: float, ranks: int, backward: float
) -> tuple[float, float]:
    """torch's optimizer on parameters that lie on the host: nothing is copied back, because each
    gather brings them anew. Gradients come in the type of the parameters when they are reduced,
    beside the backward pass (torch 2.13, distributed/fsdp/_runtime_utils.py, ``_offload_grad``);
    FSDP2 waits for those that it adds to others on the host (_fully_shard/_fsdp_collectives.py,
    ``foreach_reduce``), which clipping then reads and writes."""
    width, reduced = setup.recipe.params, 1 if setup.unsynced else setup.batch.accumulation
    each = local * width / machine.host
    late, added = max(0.0, each - backward), 0
    moved = late * reduced
    if TRAITS[setup.strategy].family == "fsdp2":
        added = reduced - 1
        moved = late + each * added
    passes = width * (count_clipping(setup) + 3 * added)
    each = _get_torch_seconds(setup, machine) + passes / rates.get_host_memory_rate(machine)
    return local * ranks * each, moved


def _run_deepspeed(
    setup: Setup, machine: ClusterHardware, local: float, ranks: int, backward: float
) -> tuple[float, float]:
    """DeepSpeed's step on the host: gradients are scaled in place (``unscale_and_clip_grads``), CPU
    Adam updates fp32 parameters, and these are copied into 16-bit ones, which go to the GPU unless
    parameters are offloaded, too (deepspeed/runtime/zero/stage_1_and_2.py and stage3.py)."""
    narrow = setup.recipe.compute
    passes = 2 * rates.FP32 + rates.FP32 + narrow
    each = _get_adam_seconds(setup, machine) + passes / rates.get_host_memory_rate(machine)
    update = each * local * ranks
    moved = _move_gradients(setup, machine, local, backward)
    if not setup.offload.params:
        moved += local * narrow / machine.host
    if not TRAITS[setup.strategy].shards_parameters:
        update += local * _CHECKS / rates.get_memory_rate(machine)
    return update, moved


def _get_adam_seconds(setup: Setup, machine: ClusterHardware) -> float:
    """Seconds of Adam for one fp32 parameter of ZeRO's."""
    return rates.get_adam_seconds(machine, joined=setup.fused_step or setup.cpu_adam)


def _get_torch_seconds(setup: Setup, machine: ClusterHardware) -> float:
    """Seconds of torch's Adam for one parameter. The fused kernel reads parameter, gradient and
    moments, all of the parameter's type, and writes all but the gradient
    (aten/src/ATen/native/cpu/FusedAdamKernel.cpp, ``adam_fused_step_impl``)."""
    if not setup.fused_step:
        return rates.get_adam_seconds(machine, joined=False)
    width = setup.recipe.master or setup.recipe.params
    return (3 * width + 2 * setup.recipe.moments) / rates.get_host_memory_rate(machine)


def _move_gradients(setup: Setup, machine: ClusterHardware, local: float, backward: float) -> float:
    """Seconds of gradients' copies, as far as backward passes do not hide them.

    Each micro-batch adds those of the earlier ones on the GPU and brings the sum back, in the type
    of the parameters; the last one copies it in fp32. ZeRO-3 brings every sum to the GPU again
    (``partition_grads``), ZeRO-1 and ZeRO-2 only to add to it
    (``async_accumulate_grad_in_cpu_via_gpu``), and their search for inf and nan lets Python wait
    for each gradient of the last micro-batch (``update_offload_overflow_tracker``).
    """
    alone = not TRAITS[setup.strategy].shards_parameters
    micro, once = setup.batch.accumulation, local * setup.recipe.compute / machine.host
    copied = [2 * once] * micro
    if alone:
        copied[0] = once if micro > 1 else 0.0
    copied[-1] += local * rates.FP32 / machine.host
    if not setup.overlap_reduce:
        return sum(copied)
    late = [max(0.0, seconds - backward) for seconds in copied]
    return sum(late[:-1]) + (copied[-1] if alone else late[-1])


def compute_activation_copies(
    setup: Setup, machine: ClusterHardware, forward: float, backward: float
) -> float:
    """Seconds of moving checkpoints to the host and back, as far as computing does not hide it:
    torchtune has a stream for that (training/_activation_offloading.py), and torch's
    ``save_on_cpu`` copies in the stream that computes (torch/autograd/graph.py)."""
    if not setup.offload_activations:
        return 0.0
    layers = setup.model.sizes.layers / setup.mesh.pp
    one = layers * setup.tokens * setup.model.sizes.hidden * setup.recipe.compute / machine.host
    late = 2 * one
    if setup.framework in _OFFLOADS_BESIDE:
        late = max(0.0, one - forward) + max(0.0, one - backward)
    return late * setup.batch.accumulation
