"""Which layers of a hybrid model have attention and which a mixer, by its config.json.

Read from the ``configuration_X.py`` of transformers 5.23, whose defaults stand here where the files
of the Hub may leave a size out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping
from functools import partial
from typing import Literal

from jobgen.strategy.shapes.architecture import Architecture, Experts, LayerKind
from jobgen.strategy.shapes.config_keys import KEYS
from jobgen.strategy.shapes.config_values import ConfigValues, SizeFault
from jobgen.strategy.shapes.mixers import (
    TITLES,
    GatedDelta,
    KimiDelta,
    Mamba1,
    Mamba2,
    ShortConvolution,
)

_MOST_LAYERS = 10_000
"""No model has more layers."""
_ATTENTION = ("full_attention", "attention", "sliding_attention", "hybrid")
"""Layers with attention, as lists of layers name them."""
_PATTERN = {"M": "linear_attention", "*": "full_attention", "-": "mlp", "E": "moe"}
"""Letters of Nemotron-H's ``hybrid_override_pattern``."""
_ALONE: Mapping[str, LayerKind] = {
    "linear_attention": LayerKind(attention=False, mixer=True, feed_forward="", times=0),
    "mamba": LayerKind(attention=False, mixer=True, feed_forward="", times=0),
    "full_attention": LayerKind(attention=True, mixer=False, feed_forward="", times=0),
    "attention": LayerKind(attention=True, mixer=False, feed_forward="", times=0),
    "mlp": LayerKind(attention=False, mixer=False, feed_forward="mlp", times=0),
    "moe": LayerKind(attention=False, mixer=False, feed_forward="experts", times=0),
}
"""Nemotron-H's layers, each of which has one part."""


def describe_mixers(arch: Architecture) -> str:
    """How many layers mix tokens without attention, in words; empty where none does."""
    if arch.mixer is None or not arch.mixes:
        return ""
    beside = " beside attention" if arch.attends + arch.mixes > arch.layers else ""
    return f"{arch.mixes} of {arch.layers} layers are {TITLES[type(arch.mixer)]}{beside}"


def complete_layers(config: Mapping[str, object]) -> Mapping[str, object]:
    """Nemotron-H's configuration with the number of layers that it lists: transformers 5 reads and
    writes the list alone."""
    kinds = _list_alone(config)
    if config.get("model_type") != "nemotron_h" or not kinds:
        return config
    return {**config, "num_hidden_layers": len(kinds)}


def _list_alone(config: Mapping[str, object]) -> list[object]:
    pattern, kinds = config.get("hybrid_override_pattern"), config.get("layers_block_type")
    if isinstance(pattern, str):
        return [_PATTERN.get(letter, letter) for letter in pattern]
    kinds = kinds or config.get("layer_types")
    return list(kinds) if isinstance(kinds, list) else []


def _read_qwen(
    arch: Architecture, data: ConfigValues, projections: Literal["joined", "split"]
) -> Architecture:
    """``Qwen3NextConfig``, ``Qwen3_5TextConfig``: every fourth layer has attention."""
    sizes = _read_delta(data, 16, 32, 128, 128)
    every = data.size(("full_attention_interval",), 4) or 4
    step = data.size(("decoder_sparse_step",), 1) or 1
    dense = _list_integers(data, "mlp_only_layers")
    return _mix(
        arch._replace(mixer=GatedDelta(*sizes, projections)),
        data,
        lambda place: (place + 1) % every == 0,
        lambda place: place not in dense and (place + 1) % step == 0,
    )


def _read_olmo(arch: Architecture, data: ConfigValues) -> Architecture:
    """``OlmoHybridConfig``: keys are three quarters as wide as hidden, values twice as wide."""
    heads = data.size(("linear_num_key_heads",), arch.heads) or arch.heads
    dim = data.size(("linear_key_head_dim",), max(1, arch.hidden * 3 // (4 * heads))) or 1
    mixer = GatedDelta(*_read_delta(data, heads, arch.heads, dim, 2 * dim), "apart")
    return _mix(arch._replace(mixer=mixer), data, lambda place: place % 4 == 3)


def _read_delta(
    data: ConfigValues, keys: int, values: int, key_dim: int, value_dim: int
) -> tuple[int, int, int, int, int]:
    """Heads of keys and of values, their widths, and the convolution's."""
    return (
        data.need(("linear_num_key_heads",), keys),
        data.need(("linear_num_value_heads",), values),
        data.need(("linear_key_head_dim",), key_dim),
        data.need(("linear_value_head_dim",), value_dim),
        data.need(("linear_conv_kernel_dim",), 4),
    )


def _read_kimi(arch: Architecture, data: ConfigValues) -> Architecture:
    """``KimiLinearConfig``: sizes and places of delta nets are in a mapping of their own, whose
    places count from 1."""
    nested = data.data.get("linear_attn_config")
    inner = ConfigValues(nested if isinstance(nested, dict) else {})
    mixer = KimiDelta(
        inner.need(("num_heads",), data.need(("linear_num_heads",), 32)),
        inner.need(("head_dim",), data.need(("linear_head_dim",), 128)),
        inner.need(("short_conv_kernel_size",), data.need(("linear_conv_kernel_dim",), 4)),
    )
    data.faults += inner.faults
    full: Container[int] = _list_integers(inner, "full_attn_layers")
    full = full or range(5, arch.layers + 1, 4)
    dense: Container[int] = range(data.size(("first_k_dense_replace",), 1, least=0) or 0)
    kinds = data.data.get("mlp_layer_types")
    if isinstance(kinds, list):
        _check_length(data, "mlp_layer_types", len(kinds), arch.layers)
        dense = frozenset(place for place, kind in enumerate(kinds) if kind == "dense")
    return _mix(
        arch._replace(mixer=mixer),
        data,
        lambda place: place + 1 in full,
        lambda place: place not in dense,
    )


def _read_lfm2(arch: Architecture, data: ConfigValues) -> Architecture:
    """``Lfm2Config``, ``Lfm2MLP``: block_ff_dim is the width of two matrices that three replace."""
    full = _list_integers(data, "full_attn_idxs")
    dense = data.size(("num_dense_layers",), 2, least=0) or 0
    bias = data.flag("conv_bias")
    mixer = ShortConvolution(data.need(("conv_L_cache",), 3), bias)
    if arch.experts is None and data.flag("block_auto_adjust_ff_dim", default=True):
        factor = data.data.get("block_ffn_dim_multiplier", 1.0)
        if not isinstance(factor, (int, float)) or not 0 < factor <= 100:
            data.refuse("block_ffn_dim_multiplier", factor, "a number from 0 to 100")
            factor = 1.0
        step = data.need(("block_multiple_of",), 256)
        arch = arch._replace(ffn=-(-int(factor * int(2 * arch.ffn / 3)) // step) * step or step)
    return _mix(
        arch._replace(mixer=mixer),
        data,
        lambda place: not full or place in full,
        lambda place: place >= dense,
    )


def _read_bamba(arch: Architecture, data: ConfigValues) -> Architecture:
    """``BambaConfig``, ``GraniteMoeHybridConfig``: without a list of layers all are Mamba-2."""
    if arch.experts is None:
        arch = arch._replace(ffn=data.size(("shared_intermediate_size",), arch.ffn) or arch.ffn)
    places = _list_integers(data, "attn_layer_indices")
    bias = data.flag("mamba_proj_bias")
    mixer = _read_mamba(arch, data)._replace(in_bias=bias, out_bias=bias)
    return _mix(arch._replace(mixer=mixer), data, lambda place: place in places)


def _read_falcon(arch: Architecture, data: ConfigValues) -> Architecture:
    """``FalconH1DecoderLayer``: attention and Mamba-2 side by side in every layer."""
    mixer = _read_mamba(arch, data)._replace(
        in_bias=data.flag("mamba_proj_bias"),
        out_bias=data.flag("projectors_bias"),
        normed=data.flag("mamba_rms_norm"),
    )
    kinds = (LayerKind(attention=True, mixer=True, feed_forward="mlp", times=arch.layers),)
    return arch._replace(mixer=mixer, kinds=kinds)


def _read_mamba(arch: Architecture, data: ConfigValues) -> Mamba2:
    heads = data.need(("mamba_n_heads",), 128)
    inner = (data.size(("mamba_expand",), 2) or 2) * arch.hidden
    inner = data.size(("mamba_d_ssm",), inner) or inner
    dim = max(1, inner // heads)
    if data.data.get("mamba_d_head") != "auto":
        dim = data.size(("mamba_d_head",), dim) or dim
    return Mamba2(
        heads,
        dim,
        data.need(("mamba_n_groups",), 1),
        data.need(("mamba_d_state",), 256),
        data.need(("mamba_d_conv",), 4),
        data.need(("mamba_chunk_size",), 256),
        conv_bias=data.flag("mamba_conv_bias", default=True),
    )


def _read_jamba(arch: Architecture, data: ConfigValues) -> Architecture:
    """``JambaConfig``: attention and experts each recur at a distance of their own."""
    rank = -(-arch.hidden // 16)
    if data.data.get("mamba_dt_rank") != "auto":
        rank = data.size(("mamba_dt_rank",), rank) or rank
    mixer = Mamba1(
        data.need(("mamba_expand",), 2) * arch.hidden,
        data.need(("mamba_d_state",), 16),
        rank,
        data.need(("mamba_d_conv",), 4),
        conv_bias=data.flag("mamba_conv_bias", default=True),
        bias=data.flag("mamba_proj_bias"),
    )
    return _mix(
        arch._replace(mixer=mixer),
        data,
        _recur(data, "attn_layer", 8, 4),
        _recur(data, "expert_layer", 2, 1),
    )


def _recur(data: ConfigValues, part: str, period: int, offset: int) -> Callable[[int], bool]:
    """Whether a layer has a part that recurs, by its place."""
    period = data.need((f"{part}_period",), period)
    offset = data.size((f"{part}_offset",), offset, least=0) or 0
    return lambda place: place % period == offset


def _read_nemotron(arch: Architecture, data: ConfigValues) -> Architecture:
    """``NemotronHConfig``: a layer is attention, Mamba-2, a feed-forward layer or experts."""
    bias = data.flag("use_bias")
    mixer = Mamba2(
        data.need(("mamba_num_heads",), 128),
        data.need(("mamba_head_dim",), 64),
        data.need(("mamba_n_groups", "n_groups"), 8),
        data.need(("ssm_state_size",), 128),
        data.need(("mamba_d_conv", "conv_kernel"), 4),
        data.need(("mamba_chunk_size", "chunk_size"), 128),
        conv_bias=data.flag("use_conv_bias", default=True),
        in_bias=bias,
        out_bias=bias,
    )
    names = _list_alone(data.data)
    if not names or any(str(name) not in _ALONE for name in names):
        wanted = "a list of linear_attention, full_attention, mlp and moe"
        data.refuse("layers_block_type", data.data.get("layers_block_type"), wanted)
        return arch
    kinds: Counter[LayerKind] = Counter(_ALONE[str(name)] for name in names)
    experts = None
    if any(kind.feed_forward == "experts" for kind in kinds):
        experts = Experts(
            data.need(("n_routed_experts",)),
            data.need(("num_experts_per_tok",)),
            data.need(("moe_intermediate_size",)),
            shared_ffn=data.need(("moe_shared_expert_intermediate_size",)),
            latent=data.size(("moe_latent_size",), 0) or 0,
        )
        data.add_conflicts(
            {"experts": experts.count, "experts_active": experts.active},
            {"experts": ("n_routed_experts",), "experts_active": ("num_experts_per_tok",)},
        )
    return arch._replace(mixer=mixer, kinds=_sort_kinds(kinds), experts=experts)


def _mix(
    arch: Architecture,
    data: ConfigValues,
    attends: Callable[[int], bool],
    routes: Callable[[int], bool] = lambda _: True,
) -> Architecture:
    """The kinds of layers: where the file lists none, by which places attend; and by which places
    route tokens to experts, if there are any."""
    if arch.layers > _MOST_LAYERS:
        data.refuse(data.name(KEYS["layers"]), arch.layers, f"at most {_MOST_LAYERS}")
        return arch
    listed = data.data.get("layer_types") or data.data.get("layers_block_type")
    attention = [attends(place) for place in range(arch.layers)]
    if isinstance(listed, list):
        _check_length(data, "layer_types", len(listed), arch.layers)
        attention = [name in _ATTENTION for name in listed[: arch.layers]]
    kinds = Counter(
        LayerKind(
            attention=full,
            mixer=not full,
            feed_forward="experts" if arch.experts is not None and routes(place) else "mlp",
            times=0,
        )
        for place, full in enumerate(attention)
    )
    return arch._replace(kinds=_sort_kinds(kinds))


def _sort_kinds(kinds: Counter[LayerKind]) -> tuple[LayerKind, ...]:
    """Kinds with their numbers, the most frequent last."""
    return tuple(kind._replace(times=times) for kind, times in reversed(kinds.most_common()))


def _check_length(data: ConfigValues, key: str, listed: int, layers: int) -> None:
    if listed != layers:
        message = f"{key} lists {listed} layers, but {data.name(KEYS['layers'])} is {layers}"
        data.faults.append(SizeFault(message, (data.name(KEYS["layers"]), key)))


def _list_integers(data: ConfigValues, key: str) -> frozenset[int]:
    places = data.data.get(key)
    return (
        frozenset(n for n in places if type(n) is int) if isinstance(places, list) else frozenset()
    )


HYBRIDS: Mapping[str, Callable[[Architecture, ConfigValues], Architecture]] = {
    "qwen3_next": partial(_read_qwen, projections="joined"),
    **dict.fromkeys(
        ("qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"),
        partial(_read_qwen, projections="split"),
    ),
    "olmo_hybrid": _read_olmo,
    "kimi_linear": _read_kimi,
    "lfm2": _read_lfm2,
    "lfm2_moe": _read_lfm2,
    "bamba": _read_bamba,
    "granitemoehybrid": _read_bamba,
    "falcon_h1": _read_falcon,
    "jamba": _read_jamba,
    "nemotron_h": _read_nemotron,
}
"""``model_type`` → which layers have attention and which a mixer."""
