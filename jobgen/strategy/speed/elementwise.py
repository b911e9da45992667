"""Bytes that a layer reads and writes beside its products and attention."""

from __future__ import annotations

from jobgen.strategy.memory.layer import (
    count_readers,
    get_residual_bytes,
    has_attention,
    has_autocast,
)
from jobgen.strategy.setup import Setup
from jobgen.strategy.shapes.architecture import Tensor, has_experts
from jobgen.strategy.speed import adapter_products, rates
from jobgen.strategy.speed.expert_copies import count_sorted_rows

_COMPLEX = ("torchtitan",)
"""Frameworks that rotate by complex numbers (torchtitan/models/common/rope.py), for which
torch.compile makes no code of its own (torch/_inductor/lowering.py)."""


_OWN_LAYERS = ("megatron", "megatron-deepspeed", "paddle")
"""Frameworks with layers of their own, which are not those of transformers."""

_COMPILED_GATES = ("automodel",)
"""Frameworks that compile the gate of experts (nemo_automodel/components/moe/experts.py)."""

_BIAS_BYTES = 32
"""Bytes that Megatron-LM reads and writes of each result of an expert to add a bias to it, in
either pass on the average: the bias times the token's weight, a sum, the results of all experts
joined, in fp32, and a cast (core/transformer/moe/experts.py, ``_apply_bias``)."""

_CLAMP_BYTES = 23
"""Bytes that Megatron-LM reads and writes of each element of an expert's activation to clamp its
inputs, in either pass on the average: 16 forward, two clamps and both halves joined; 30 backward,
three comparisons, their conjunction, two selections, and both halves joined again
(core/fusions/fused_bias_geglu.py, ``weighted_bias_quick_geglu_impl``; aten's
``clamp_backward``)."""


_WRITTEN = (18, 29)
"""Times that GELU written out reads or writes a tensor of its input's width, forward, and backward
with the sum for the bias before it (transformers, activations.py, ``NewGELUActivation``; counted by
tests/strategy/speed/scored.py)."""
_WRITTEN_AUTOCAST = (76, 120)
"""Bytes of each element under autocast, where pow computes in fp32, and what follows from it."""


def count_elementwise(setup: Setup, tensors: tuple[Tensor, ...]) -> float:
    """Bytes that everything else of a layer reads and writes in its forward pass.

    A norm reads and writes once; an RMSNorm in single kernels ten times, mostly in fp32. A sum
    reads two and writes one, or is fused with the norm after it. An activation reads its input
    and writes its output, in between once more where a gate is not fused. Rotation goes to fp32
    and back. Keys and values that are repeated for all heads are written out. What peft prepared
    is fp32 between products, so that nothing is cast within a norm.
    """
    sizes, tp = setup.model.sizes, setup.mesh.tp
    e = rates.FP32 if adapter_products.is_prepared(setup) else setup.recipe.compute
    fused = setup.compiled or is_fused_layer(setup)
    whole = fused or (setup.fused_norms and not setup.legacy)
    width = float(sizes.hidden * _count_stream(setup, e))
    if setup.hidden_dropout and not _has_single_operations(setup):
        # alone, or joined with the sum, only what was dropped is written
        width += 2 * sizes.hidden * (1 if fused or setup.legacy else 2 * e + 1)
    if setup.sequence_parallel:
        width /= tp
    width += _count_activation(setup, tensors)
    if not has_attention(setup):
        return width * setup.tokens
    if sizes.rotary and not sizes.positions:
        turned = (sizes.heads + sizes.kv_heads) * sizes.head_dim / tp
        scaled = sizes.scaled_rotation and setup.framework == "megatron"
        joined = whole and setup.framework not in _COMPLEX and not scaled
        width += turned * (2 * e if joined else 10 * e)
        width += turned * 4 * rates.FP32 * setup.wide_rotation
    if setup.repeat_kv and sizes.kv_heads < sizes.heads:
        width += 2 * e * (sizes.heads + sizes.kv_heads) * sizes.head_dim / tp
    return width * setup.tokens


def count_expert_activation(setup: Setup, tensors: tuple[Tensor, ...]) -> float:
    """Bytes that the activation of experts and its gate read and write in one pass."""
    return setup.tokens * _count_activation(setup, tensors)


def _count_activation(setup: Setup, tensors: tuple[Tensor, ...]) -> float:
    """Of one token."""
    if setup.fused_experts and has_experts(tensors):
        return 0.0
    e = rates.FP32 if adapter_products.is_prepared(setup) else setup.recipe.compute
    fused = setup.compiled or is_fused_layer(setup)
    joined_gate = has_experts(tensors) and setup.framework in _COMPILED_GATES
    gate = 3 if fused or joined_gate else 5
    plain = 0 if is_written_out(setup) else 2
    each = gate if setup.model.sizes.gated else plain
    return _ffn(setup, tensors) / setup.mesh.tp * each * e


def count_single_operations(setup: Setup, tensors: tuple[Tensor, ...]) -> tuple[float, float]:
    """Bytes that are read and written, forward and backward, by PyTorch's own operations where a
    compiler or Megatron-LM joins them: GELU written out, and dropout, which writes a mask of a byte
    that the backward pass reads."""
    if not _has_single_operations(setup):
        return 0.0, 0.0
    e, width = setup.recipe.compute, _ffn(setup, tensors) / setup.mesh.tp
    dropped = 2.0 * setup.model.sizes.hidden * (2 * e + 1) * setup.hidden_dropout
    ahead, back = 0.0, 0.0
    if is_written_out(setup):
        ahead, back = _WRITTEN_AUTOCAST if has_autocast(setup) else (e * n for n in _WRITTEN)
    return setup.tokens * (width * ahead + dropped), setup.tokens * (width * back + dropped)


def is_written_out(setup: Setup) -> bool:
    """Whether the activation is GELU in single operations."""
    return setup.model.sizes.activation == "eager" and _has_single_operations(setup)


def _has_single_operations(setup: Setup) -> bool:
    return not (setup.compiled or setup.framework in _OWN_LAYERS)


def is_fused_layer(setup: Setup) -> bool:
    """Whether Megatron's kernels join activation and gate, and the operations of rotation."""
    return setup.framework == "megatron" and not setup.legacy


def count_moved(setup: Setup, tensors: tuple[Tensor, ...]) -> float:
    """Bytes that are read and written in one pass to sort tokens by their experts and back, to add
    the experts' biases, and to clamp what their activation takes."""
    experts, mesh = setup.model.sizes.experts, setup.mesh
    if experts is None or not has_experts(tensors):
        return 0.0
    tokens = setup.tokens * mesh.expert_tp / mesh.tp
    hidden = setup.model.sizes.hidden
    sorted_ = hidden * setup.recipe.compute * count_sorted_rows(setup, experts)
    if setup.framework == "megatron" and not setup.fused_experts:
        added = experts.bias * hidden * _BIAS_BYTES
        clamped = setup.model.sizes.clamped_gate * experts.ffn * _CLAMP_BYTES
        sorted_ += experts.active * (added + clamped / mesh.expert_tp)
    return tokens * sorted_


def _count_stream(setup: Setup, e: int) -> int:
    """Bytes of each of the stream's elements that the norms of a layer and its two sums read and
    write, with products' results of ``e`` bytes each. An fp32 stream is cast for every product,
    unless the norm that a compiler joined with that writes 16 bits."""
    sizes, stream = setup.model.sizes, get_residual_bytes(setup)
    fused = setup.compiled or setup.framework == "megatron"
    sums = 2 * (2 * stream if fused else 2 * stream + e)
    cast = setup.recipe.compute if setup.compiled else stream
    if fused or setup.fused_norms or setup.joined_norms or sizes.layer_norm:
        norm = stream + cast
    else:
        norm = 28 if stream == rates.FP32 else 6 * e + 24
    casts = 0
    if stream > e and not setup.compiled:
        casts = count_readers(setup) * (stream + e)
    return sizes.norms * norm + sums + casts


def _ffn(setup: Setup, tensors: tuple[Tensor, ...]) -> int:
    """Width between the halves of the feed-forward layer, as one token sees it."""
    experts = setup.model.sizes.experts
    if experts and has_experts(tensors):
        return experts.active * experts.ffn + experts.shared_ffn
    return setup.model.sizes.ffn
