"""Parameter tensors of what mixes tokens without attention, as transformers 5.23 builds them.

Linear layers are of kind ``attention``, as adapters and quantization treat them alike; filters of
convolutions, decays and biases of time steps are of kind ``mixer``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jobgen.strategy.shapes.architecture import Tensor
from jobgen.strategy.shapes.mixers import (
    GatedDelta,
    KimiDelta,
    Mamba1,
    Mamba2,
    Mixer,
    ShortConvolution,
)


def list_mixer_tensors(mixer: Mixer, hidden: int) -> Iterator[Tensor]:
    """The tensors of one layer's mixer."""
    yield from _LISTS[type(mixer)](mixer, hidden)


def _list_delta(mixer: GatedDelta, hidden: int) -> Iterator[Tensor]:
    keys, values, heads = mixer.keys, mixer.values, mixer.value_heads
    widths = {
        "joined": {"in_proj_qkvz": 2 * keys + 2 * values, "in_proj_ba": 2 * heads},
        "split": {
            "in_proj_qkv": 2 * keys + values,
            "in_proj_z": values,
            "in_proj_b": heads,
            "in_proj_a": heads,
        },
        "apart": {
            "q_proj": keys,
            "k_proj": keys,
            "v_proj": values,
            "a_proj": heads,
            "b_proj": heads,
            "g_proj": values,
        },
    }[mixer.projections]
    for name, width in widths.items():
        yield Tensor(name, "attention", (width, hidden))
    yield from _list_filters(2 * keys + values, mixer.kernel, bias=False)
    yield Tensor("dt_bias", "mixer", (heads,))
    yield Tensor("A_log", "mixer", (heads,))
    yield Tensor("mixer_norm", "norm", (mixer.value_dim,))
    last = "o_proj" if mixer.projections == "apart" else "out_proj"
    yield Tensor(last, "attention", (hidden, values))


def _list_kimi(mixer: KimiDelta, hidden: int) -> Iterator[Tensor]:
    width, dim = mixer.values, mixer.dim
    for name in ("q_proj", "k_proj", "v_proj"):
        yield Tensor(name, "attention", (width, hidden))
    yield from _list_filters(3 * width, mixer.kernel, bias=False)
    yield Tensor("f_a_proj", "attention", (dim, hidden))
    yield Tensor("f_b_proj", "attention", (width, dim))
    yield Tensor("dt_bias", "mixer", (width,))
    yield Tensor("A_log", "mixer", (1, 1, mixer.heads, 1))
    yield Tensor("b_proj", "attention", (mixer.heads, hidden))
    yield Tensor("g_a_proj", "attention", (dim, hidden))
    yield Tensor("g_b_proj", "attention", (width, dim))
    yield Tensor("mixer_norm", "norm", (dim,))
    yield Tensor("o_proj", "attention", (hidden, width))


def _list_mamba2(mixer: Mamba2, hidden: int) -> Iterator[Tensor]:
    width = mixer.inner + mixer.convolved + mixer.heads
    yield from _list_linear("in_proj", (width, hidden), mixer.in_bias)
    yield from _list_filters(mixer.convolved, mixer.kernel, mixer.conv_bias)
    for name in ("dt_bias", "A_log", "D"):
        yield Tensor(name, "mixer", (mixer.heads,))
    if mixer.normed:
        yield Tensor("mixer_norm", "norm", (mixer.inner,))
    yield from _list_linear("out_proj", (hidden, mixer.inner), mixer.out_bias)


def _list_mamba1(mixer: Mamba1, hidden: int) -> Iterator[Tensor]:
    inner, state, rank = mixer.inner, mixer.state, mixer.rank
    yield from _list_linear("in_proj", (2 * inner, hidden), mixer.bias)
    yield from _list_filters(inner, mixer.kernel, mixer.conv_bias)
    yield from _list_linear("x_proj", (rank + 2 * state, inner), bias=False)
    yield from _list_linear("dt_proj", (inner, rank), bias=True)
    yield Tensor("A_log", "mixer", (inner, state))
    yield Tensor("D", "mixer", (inner,))
    yield Tensor("dt_layernorm", "norm", (rank,))
    yield Tensor("b_layernorm", "norm", (state,))
    yield Tensor("c_layernorm", "norm", (state,))
    yield from _list_linear("out_proj", (hidden, inner), mixer.bias)


def _list_convolution(mixer: ShortConvolution, hidden: int) -> Iterator[Tensor]:
    yield from _list_linear("in_proj", (3 * hidden, hidden), mixer.bias)
    yield from _list_filters(hidden, mixer.kernel, mixer.bias)
    yield from _list_linear("out_proj", (hidden, hidden), mixer.bias)


def _list_filters(width: int, kernel: int, bias: bool) -> Iterator[Tensor]:
    """Of a convolution that has a filter for each channel."""
    yield Tensor("conv1d", "mixer", (width, 1, kernel))
    if bias:
        yield Tensor("conv1d.bias", "mixer", (width,))


def _list_linear(name: str, shape: tuple[int, int], bias: bool) -> Iterator[Tensor]:
    yield Tensor(name, "attention", shape)
    if bias:
        yield Tensor(f"{name}.bias", "attention", shape[:1])


_LISTS: Mapping[type[Mixer], Callable[[Any, int], Iterator[Tensor]]] = {
    GatedDelta: _list_delta,
    KimiDelta: _list_kimi,
    Mamba2: _list_mamba2,
    Mamba1: _list_mamba1,
    ShortConvolution: _list_convolution,
}
