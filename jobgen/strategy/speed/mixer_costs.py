"""Products and traffic of what mixes tokens without attention, for each token of one layer.

Read from the kernels that ``memory.mixer_bytes`` counts: flash-linear-attention,
fla/ops/gated_delta_rule/chunk.py; mamba, mamba_ssm/ops/triton/ssd_combined.py. Each tensor counts
as often as a kernel reads or writes it. How near these kernels come to a GPU's rates is not known;
they are counted at the rates of other products and of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jobgen.named_tuple import NamedTuple
from jobgen.strategy.estimate import ClusterHardware
from jobgen.strategy.setup import Setup
from jobgen.strategy.shapes.mixers import (
    GatedDelta,
    KimiDelta,
    Mamba2,
    Mixer,
    ShortConvolution,
)
from jobgen.strategy.speed import products, rates

_CHUNK = 64
"""Tokens of a chunk of flash-linear-attention's kernels."""
_FP32 = 4


class MixerCost(NamedTuple):
    """Of one token, without the products with weights."""

    multiplied: float
    """Multiply-adds of the forward pass; the backward pass has twice as many."""
    ahead: float
    """Bytes that are read and written in the forward pass."""
    back: float
    """And in the backward pass."""
    kernels: int
    """Kernels of the forward pass."""


_NONE = MixerCost(0.0, 0.0, 0.0, 0)


def count_mixer(mixer: Mixer | None, hidden: int, width: int) -> MixerCost:
    """The cost of one layer's mixer, with elements of ``width`` bytes; nothing where none is
    counted."""
    count = _COUNTS.get(type(mixer))
    return count(mixer, hidden, width) if count else _NONE


def compute_mixer(setup: Setup, machine: ClusterHardware) -> products.Both:
    """Seconds of the mixer of one layer: products or memory, whichever takes longer."""
    sizes = setup.model.sizes
    if not sizes.mixes:
        return products.Both(0.0, 0.0)
    cost = count_mixer(sizes.mixer, sizes.hidden, setup.recipe.compute)
    rate = products.get_rate(setup.recipe.compute, machine, tf32=setup.tf32)
    memory, tokens = rates.get_memory_rate(machine), setup.tokens / setup.mesh.tp
    multiplied = 2.0 * cost.multiplied / rate
    return products.Both(
        tokens * max(multiplied, cost.ahead / memory),
        tokens * max(2 * multiplied, cost.back / memory),
    )


def _count_delta(mixer: GatedDelta, _hidden: int, width: int) -> MixerCost:
    return _count_rule(
        mixer.value_heads, mixer.key_dim, mixer.value_dim, 2 * mixer.keys + mixer.values, width
    )


def _count_kimi(mixer: KimiDelta, _hidden: int, width: int) -> MixerCost:
    """The decay of each channel in fp32 beside: seven operations make it, and three kernels read
    it (``KimiLinearForgetGate``)."""
    rule = _count_rule(mixer.heads, mixer.dim, mixer.dim, 3 * mixer.values, width)
    decay = _FP32 * (2.0 * 7 + 3) * mixer.values
    return rule._replace(
        ahead=rule.ahead + decay, back=rule.back + 2 * decay, kernels=rule.kernels + 7
    )


def _count_rule(heads: int, key_dim: int, value_dim: int, convolved: int, width: int) -> MixerCost:
    """The delta rule by chunks, the convolution before it, and the gated norm behind it.

    Within a chunk keys meet keys, queries meet keys, and what these make meets keys and values
    twice; between chunks the state is read twice and written once.
    """
    keys, values = heads * key_dim, heads * value_dim
    states = keys * value_dim / _CHUNK
    multiplied = 3.0 * keys * value_dim + _CHUNK * (3.0 * keys + 2.0 * values)
    ahead = width * (7.0 * keys + 6.0 * values + 2.0 * states + 6.0 * _CHUNK * heads)
    back = width * (21.0 * keys + 15.0 * values + 4.0 * states + 2.0 * _CHUNK * heads)
    # the convolution, and copies of queries, keys and values that lie head by head
    moved = 4.0 * width * convolved
    # ``Qwen3NextRMSNormGated``: ten operations, most of them in fp32
    norm = (6.0 * width + 54.0) * values
    return MixerCost(multiplied, ahead + moved + norm, back + 2 * (moved + norm), 30)


def _count_mamba2(mixer: Mamba2, _hidden: int, width: int) -> MixerCost:
    """The convolution; states by chunks in fp32, written, passed on and read; outputs, gated and
    normalized. Backward the convolution and the output again."""
    states = mixer.inner * mixer.state / mixer.chunk
    multiplied = mixer.inner * (mixer.chunk + 2.0 * mixer.state)
    multiplied += mixer.groups * mixer.chunk * mixer.state
    ahead = width * (2.0 * mixer.convolved + 6.0 * mixer.inner) + 4.0 * _FP32 * states
    return MixerCost(multiplied, ahead, 3 * ahead, 8)


def _count_convolution(mixer: ShortConvolution, hidden: int, width: int) -> MixerCost:
    """``Lfm2ShortConv``: two products of gates, the convolution, and a copy."""
    ahead = (3.0 + 2.0 + 3.0 + 2.0) * width * hidden
    return MixerCost(float(mixer.kernel * hidden), ahead, 2 * ahead, 4)


_COUNTS: Mapping[type[Any], Callable[[Any, int, int], MixerCost]] = {
    GatedDelta: _count_delta,
    KimiDelta: _count_kimi,
    Mamba2: _count_mamba2,
    ShortConvolution: _count_convolution,
}
