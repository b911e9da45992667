"""Bytes that autograd keeps of what mixes tokens without attention, for each token of one layer.

Counted with the kernels that transformers 5.23 takes where their packages are installed (its
integrations/hub_kernels.py, ``use_kernel_func_from_hub_with_fallback``): without them it trains
many times slower, and keeps more. What a kernel keeps is what its autograd function saves:
flash-linear-attention, fla/ops/gated_delta_rule/chunk.py, ``ChunkGatedDeltaRuleFunction``, and
fla/ops/kda/chunk.py, ``ChunkKDAFunction``; mamba, mamba_ssm/ops/triton/ssd_combined.py,
``MambaSplitConv1dScanCombinedFn``; causal-conv1d, causal_conv1d_interface.py, ``CausalConv1dFn``.
What lies around the kernels is held against torch's MemTracker by
``tests/strategy/memory/test_mixers.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jobgen.strategy.shapes.mixers import (
    GatedDelta,
    KimiDelta,
    Mamba2,
    Mixer,
    ShortConvolution,
)

_FP32 = 4
_CHUNK = 64
"""Tokens of a chunk of flash-linear-attention's kernels, whose decays among each other are kept."""


PACKAGES: Mapping[type[Mixer], str] = {
    GatedDelta: "flash-linear-attention and causal-conv1d",
    KimiDelta: "flash-linear-attention and causal-conv1d",
    Mamba2: "mamba-ssm and causal-conv1d",
}
"""The packages whose kernels are counted; PyTorch's own convolution keeps what causal-conv1d's
does."""


def keep_mixer(mixer: Mixer | None, hidden: int, width: int) -> float:
    """Bytes of one token of one layer's mixer, with elements of ``width`` bytes; 0 for those that
    are not counted."""
    count = _COUNTS.get(type(mixer))
    return float(count(mixer, hidden, width)) if count else 0.0


def flow_mixer(mixer: Mixer | None, width: int) -> float:
    """Bytes of one token that the backward pass of a mixer's kernel needs beside what is kept, less
    what lies behind it in the layer and is gone by then."""
    if isinstance(mixer, GatedDelta):
        return _flow_delta(mixer, width)
    return _flow_mamba2(mixer, width) if isinstance(mixer, Mamba2) else 0.0


def _flow_delta(mixer: GatedDelta, width: int) -> float:
    """``chunk_gated_delta_rule_bwd``: what is computed again, and gradients, with keys repeated for
    all heads; and a state for each chunk with its gradient."""
    keys, values = mixer.value_heads * mixer.key_dim, mixer.values
    states = mixer.value_heads * mixer.key_dim * mixer.value_dim / _CHUNK
    flow = width * (5.0 * keys + 5.0 * values + 2.0 * states)
    return flow - _count_gated_norm(values, mixer.value_heads, width)


def _flow_mamba2(mixer: Mamba2, width: int) -> float:
    """``MambaSplitConv1dScanCombinedFn.backward``: the gradient of its input, the convolution and
    the last matrix's input again, the latter's gradient, and states and their gradients in fp32."""
    mixed = mixer.inner + mixer.convolved + mixer.heads
    states = mixer.inner * mixer.state / mixer.chunk
    return width * (mixed + mixer.convolved + 2.0 * mixer.inner) + 2.0 * _FP32 * states


def counts_bytes(mixer: Mixer | None) -> bool:
    """Whether what a mixer of this kind keeps is known."""
    return type(mixer) in _COUNTS


def _count_delta(mixer: GatedDelta, _hidden: int, width: int) -> float:
    keys, values, heads = mixer.keys, mixer.values, mixer.value_heads
    convolved = width * (2 * keys + values)
    # queries and keys with a norm of 1, the norm itself, values, and the decay that has been summed
    kernel = width * (2 * keys + values + _CHUNK * heads) + _FP32 * (2 * mixer.key_heads + heads)
    gates = width * heads + 2 * _FP32 * heads  # sigmoid; the input and the output of softplus
    return convolved + kernel + gates + _count_gated_norm(values, heads, width)


def _count_kimi(mixer: KimiDelta, _hidden: int, width: int) -> float:
    values, heads, dim = mixer.values, mixer.heads, mixer.dim
    convolved = width * 3 * values
    # two decays for each channel: as they are given, and summed
    kernel = width * (3 * values + 2 * _CHUNK * heads) + _FP32 * (2 * heads + 2 * values)
    # sigmoid; the compressed inputs; exp, what log takes, log's output, and a mask of a byte
    gates = width * (heads + 2 * dim) + (3 * _FP32 + 1) * values
    # its input, what the weight and what the gate multiplies, and the gate, in fp32
    norm = (4 * _FP32 + width) * values + _FP32 * heads
    return convolved + kernel + gates + norm


def _count_gated_norm(values: int, heads: int, width: int) -> float:
    """``Qwen3NextRMSNormGated``: its input, the gate and the gate's activation in fp32, and in the
    type of the input what is multiplied by the weight, by the gate, and by the next matrix."""
    return 3.0 * _FP32 * values + _FP32 * heads + 3.0 * width * values


def _count_mamba2(mixer: Mamba2, _hidden: int, width: int) -> float:
    """The kernel computes the convolution, the gate and the norm again."""
    kept = width * (2 * mixer.inner + mixer.convolved + mixer.heads)
    return kept + _FP32 * mixer.groups * mixer.normed


def _count_convolution(_mixer: ShortConvolution, hidden: int, width: int) -> float:
    """``Lfm2ShortConv``: two gates and the input, their product, what the convolution makes of it,
    and the input of the last matrix."""
    return 6.0 * width * hidden


_COUNTS: Mapping[type[Any], Callable[[Any, int, int], float]] = {
    GatedDelta: _count_delta,
    KimiDelta: _count_kimi,
    Mamba2: _count_mamba2,
    ShortConvolution: _count_convolution,
}
