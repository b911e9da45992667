"""Bytes that a strategy needs for a while: gathered parameters, buckets, copies for the step."""

from __future__ import annotations

from collections.abc import Callable

from jobgen.named_tuple import NamedTuple
from jobgen.strategy.memory.memory_states import (
    PipelineStage,
    count_shards,
    count_trained,
    count_whole_grads,
)
from jobgen.strategy.setup import Setup
from jobgen.strategy.spec import TRAITS


class Transient(NamedTuple):
    """Bytes on one GPU at the three moments that can be the peak."""

    forward: float
    """Gathered parameters and copies, while the loss is computed."""
    backward: float
    """The same, while the first layer's gradients are computed, the last of the backward pass."""
    buckets: float
    """Buffers for communication, which are kept from the first backward pass on."""
    step: float
    """Copies that the optimizer makes."""
    pool: float = 0.0
    """What streams of their own keep of gathered parameters while the optimizer works."""
    returning: float | None = None
    """While the last layer goes backward, where that is less than while the loss is computed."""
    inputs: float = 0.0
    """Input of the largest reduce-scatter, the last of the backward pass. It lies where activations
    do, so that these take its memory over."""
    layer_end: float | None = None
    """``backward`` less what only the root needs, which goes backward after the first layer."""
    layer_inputs: float = 0.0
    """Of ``reduced``, the first layer's."""
    root_end: float = 0.0
    """While the root's gradients are reduced: no layer is gathered any more."""
    first_inputs: float = 0.0
    """The same of the first reduce-scatter, while activations are still there."""
    pieces: float = 0.0
    """Gradients of a unit's parameters, which its flat one's is made of when the unit has gone
    backward (torch, csrc/autograd/FunctionsManual.cpp, ``split_with_sizes_backward``)."""
    root: float = 0.0
    """Gathered parameters of FSDP1's root."""
    root_pieces: float = 0.0
    """Gradients of the root's parameters, of which the first is there from the loss on."""
    staged: float = 0.0
    """Of gathered parameters, what lies in the pool of a stream that brought a rank's part to the
    GPU, and is free once all parts are gathered."""

    @property
    def reduced(self) -> float:
        """All buffers for communication that the backward pass needs."""
        return self.buckets + self.inputs


_GATHER = 500_000_000
"""Elements of DeepSpeed's allgather_bucket_size by default (runtime/zero/config.py)."""
_LIVE = 1_000_000_000
"""Elements of max_live_parameters and of sub_group_size by default (the same file)."""
_UNITS = 2
"""Layers that FSDP has gathered at once: the one that works and the next one (torch 2.13,
distributed/fsdp/_limiter_utils.py, ``_FreeEventQueue``; FSDP2 prefetches one)."""


_FLOAT8 = 1.0
"""Bytes of a weight in 8 bits; all of them share one scale (torchao, float8/fsdp_utils.py)."""


def compute_transient(setup: Setup, stage: PipelineStage) -> Transient:
    """What the strategy's family needs beside its states."""
    return _FAMILIES[TRAITS[setup.strategy].family](setup, stage)


def _copied(setup: Setup, stage: PipelineStage) -> Transient:
    """DDP. Autocast keeps a cast copy of every matrix until its backward pass."""
    recipe, sizes = setup.recipe, setup.model.sizes
    head = sizes.vocab * sizes.hidden / setup.mesh.tp if stage.last else 0.0
    # what a trace under autocast has measured holds them already
    narrow = recipe.params > recipe.compute and setup.measured is None
    trained, _ = count_trained(setup, stage)
    whole, largest = stage.inside + head, stage.largest + head
    if setup.adapters is not None and setup.adapters.bits <= 16:
        # what is frozen has 16 bits or fewer, but for a prepared head
        wide = setup.adapters.prepared and not setup.adapters.narrow_ends
        whole = largest = trained + head * wide
    cast = recipe.compute * whole if narrow else 0.0
    buckets = recipe.grads * trained if setup.copied_grads else 0.0
    step = _step(setup, trained, 1)
    # autocast forgets its copies where it ends, and what is computed again makes them anew
    again = recipe.compute * largest if narrow else 0.0
    return Transient(
        cast, 0.0, buckets, step, returning=None if setup.recompute == "none" else again
    )


def _gathered(setup: Setup, stage: PipelineStage) -> Transient:
    """FSDP: two layers, and the root for the whole of the step."""
    recipe, cut = setup.recipe, count_shards(setup)
    trained, frozen = count_trained(setup, stage)
    # of gathered gradients too, and of the root, which is not quantized (transformers,
    # quantizers/base.py, ``get_keys_to_not_convert``; an embedding is no linear layer)
    each = width = float(recipe.compute)
    if setup.adapters is not None:
        each = min(each, (frozen - width * stage.outside) / max(1.0, stage.inside))
    if cut == 1 or setup.strategy == "fsdp-no-shard":
        held = stage.params if setup.adapters is None else trained
        cast = recipe.compute * held if recipe.params > recipe.compute else 0.0
        return Transient(cast, cast, 0.0, _step(setup, trained, 1) + _widen(setup, trained))
    stays = setup.strategy == "fsdp-grad-op" or setup.reshard is False or setup.mesh.pp > 1
    # torch takes memory when Python asks for it, and uses it again when the GPU is done with it
    stays = stays or setup.gathers_ahead
    units = stage.inside if stays else min(_UNITS * stage.largest, stage.inside)
    if setup.reshard is not True and setup.reshard is not False:
        units += stage.inside / setup.reshard
    params = width * stage.outside + (_FLOAT8 if setup.narrow_gather else each) * units
    if setup.narrow_copies:
        params += _FLOAT8 * stage.inside
    staged = 0.0
    if setup.offload.params and TRAITS[setup.strategy].family == "fsdp":
        # a rank's part comes to the GPU in a stream of its own before it is gathered (torch 2.13,
        # distributed/fsdp/_flat_param.py, ``pre_unshard``): the largest stays in its pool
        staged = max(width * stage.outside, each * stage.largest) / cut
    params += staged
    if setup.adapters is not None:
        return _gather_adapted(setup, stage, params, staged, stays=stays)
    unit, outside = stage.gradients
    end = outside if setup.model.sizes.tied else outside / 2
    apart = setup.split_root and end < outside
    root = end if apart else outside
    pool, first, inputs = _buffer_gradients(setup, stage, (end if apart else 0.0, root))
    if apart:  # the embedding is not gathered while the loss is computed
        params -= width * end
    backward = params + width * (unit + root)
    # one root is reduced last (_fsdp_state.py, ``_root_post_backward_final_callback``)
    waits = stage.last and not apart and count_whole_grads(setup, stage) == 0
    returning = params + (width * end if waits else 0.0)
    # a loss that is fused with the output layer makes that layer's gradient at once
    at_loss = returning if setup.loss == "fused" else params
    step = _step(setup, trained, cut) + _widen(setup, trained / cut)
    return Transient(
        at_loss,
        backward,
        pool,
        step,
        params,
        returning,
        inputs,
        layer_end=returning + width * unit,
        layer_inputs=recipe.reduce * unit,
        root_end=each * (end if apart else stage.outside) + width * root,
        first_inputs=first,
        pieces=width * unit,
        root=width * stage.outside,
        root_pieces=width * outside,
        staged=staged,
    )


def _gather_adapted(
    setup: Setup, stage: PipelineStage, params: float, staged: float, *, stays: bool
) -> Transient:
    """FSDP around adapters and what is frozen, of which it has gathered ``params``."""
    recipe, (trained, _) = setup.recipe, count_trained(setup, stage)
    step = _step(setup, trained, count_shards(setup))
    if setup.adapters is None or not setup.adapters.flattened:
        pool = (recipe.compute + recipe.reduce) * trained / max(1.0, stage.layers)
        return Transient(params, params, pool, step, staged=staged)
    unit = recipe.compute * stage.largest
    # nothing is gathered beside the first layer, and its gradient may be among those that are kept
    alone = params if stays else params - unit
    kept = setup.longest_first and count_whole_grads(setup, stage) > 0
    last = 0.0 if kept else unit
    return Transient(
        params, alone, 0.0, step, inputs=last, first_inputs=unit, pieces=unit, staged=staged
    )


def _buffer_gradients(
    setup: Setup, stage: PipelineStage, ends: tuple[float, float]
) -> tuple[float, float, float]:
    """Bytes of FSDP's gradients before they are reduced: in a pool of their own, and inputs of the
    first and of the last reduce-scatter. ``ends`` are elements of what is reduced beside layers at
    both times."""
    recipe = setup.recipe
    pool = 0.0
    first, last = (recipe.reduce * max(stage.gradients[0], end) for end in ends)
    if TRAITS[setup.strategy].family == "fsdp":
        # FSDP1 makes them in a stream of its own, whose pool no other one reuses (torch 2.13,
        # distributed/fsdp/_runtime_utils.py, ``_post_backward_hook``), FSDP2 in the stream that
        # computes (_fully_shard/_fsdp_collectives.py, ``foreach_reduce``)
        pool, first, last = last, 0.0, 0.0
    if setup.mesh.pp > 1 and setup.batch.accumulation > 1:
        # gradients are reduced with the last micro-batch only, and whole until then (torch 2.13,
        # distributed/pipelining/stage.py, ``backward_maybe_with_nosync``)
        pool += recipe.reduce * count_trained(setup, stage)[0]
    return pool, first, last


def _zero(setup: Setup, stage: PipelineStage) -> Transient:
    """DeepSpeed's ZeRO. It allocates a bucket whole, however little is trained
    (runtime/zero/stage_1_and_2.py, ``setup_buckets``; stage3.py, "IPG")."""
    recipe, cut = setup.recipe, count_shards(setup)
    trained, _ = count_trained(setup, stage)
    # a distributed optimizer: buckets are views of gradients; PaddlePaddle's kernel reads narrow
    # gradients beside the fp32 copy of parameters (paddle/phi/kernels/gpu/adamw_kernel.cu)
    if setup.framework in {"megatron", "paddle"}:
        return Transient(0.0, 0.0, 0.0, _step(setup, trained, cut))
    bucket = setup.reduce_bucket * recipe.reduce
    # an optimizer on the CPU has its fp32 gradients there (``step``, ``_prepare_sub_group``)
    widens = recipe.grads < 4 and not setup.offload.optimizer
    if not TRAITS[setup.strategy].shards_parameters:
        # the partition's gradients are flattened, and widened (stage_1_and_2.py, ``step``)
        fp32 = (recipe.grads + 4.0) * trained / cut if widens else 0.0
        gather = min(_GATHER, trained) * recipe.compute
        step = max(fp32 + _step(setup, trained, cut), gather)
        return Transient(0.0, 0.0, bucket * (2 if setup.strategy == "zero2" else 1), step)
    live = recipe.compute * (stage.params if setup.reshard is False else min(_LIVE, stage.params))
    gone = min(_LIVE, trained / cut)
    # a sub-group's gradients are flattened, and widened (stage3.py, ``_prepare_fp32_grad_…``)
    step = (recipe.grads + 4.0) * gone if widens else 0.0
    copied = 0.0 if setup.fused_step or setup.offload.optimizer else 4.0 * gone
    return Transient(live, live, bucket, step + copied, live)


def _widen(setup: Setup, trained: float) -> float:
    """Bytes of fp32 copies of all gradients, where an fp32 copy of the parameters steps."""
    recipe = setup.recipe
    narrow = recipe.master > 0 and recipe.grads < 4
    return 4.0 * trained if narrow and not setup.offload.optimizer else 0.0


def _step(setup: Setup, trained: float, cut: int) -> float:
    """torch's foreach AdamW makes the root of the second moments of all parameters at once
    (torch/optim/adamw.py, ``_multi_tensor_adamw``); the fused one makes nothing, nor does
    bitsandbytes', which steps parameter by parameter (optim/optimizer.py, ``Optimizer8bit.step``).
    """
    by_parameter = setup.step_in_backward or setup.recipe.embedding_moments is not None
    if setup.fused_step or setup.offload.optimizer or by_parameter:
        return 0.0
    return setup.step_copies * trained / cut * setup.recipe.moments / 2


_FAMILIES: dict[str, Callable[[Setup, PipelineStage], Transient]] = {
    "ddp": _copied,
    "3d": _copied,
    "fsdp": _gathered,
    "fsdp2": _gathered,
    "zero": _zero,
}
