"""The sizes of a transformer from the config.json that lies beside its weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jobgen.model.units import clip
from jobgen.strategy.shapes.adjustments import ADJUSTMENTS
from jobgen.strategy.shapes.architecture import Architecture, Experts, Mla
from jobgen.strategy.shapes.config_keys import CONSTANTS, DROPOUT, EXPERTS, KEYS, LATENT
from jobgen.strategy.shapes.config_values import ConfigValues, SizeFault
from jobgen.strategy.shapes.families import FAMILIES, LLAMA, ModelFamily
from jobgen.strategy.shapes.hybrids import HYBRIDS, complete_layers
from jobgen.wording import join_words

_FASTEST = 1e12
"""No base of a rotation is larger."""
_UNGATED = ("gelu", "gelu_new", "relu", "relu2")
"""Values of hidden_act of types whose feed-forward layer has no gate: all of transformers 5.23 that
have one of these and no family here, but for ModernBERT's decoder."""
_UNWEIGHTED = ("llama4", "llama4_text")
"""Types whose norms of queries and keys have no parameters."""
_NO_ATTENTION = ("linear_attention",)
"""Kinds of layers that keep no keys and values, though they are called attention."""
_OPTIONAL = ("most", "kv_heads", "head_dim", "embedding_dim")


def read(config: Mapping[str, object], name: str) -> tuple[Architecture | None, str]:
    """The sizes, and in words what is missing or in doubt; empty where all is known.

    ``config`` is a config.json of the Hub, of any ``model_type``. A type that is not in the table
    of families is read as Llama's with what the file says, and the words say so. Without one of
    the sizes that nothing can stand for there is no Architecture.
    """
    arch, data, doubts = _examine(config, name)
    if data.faults:
        return None, "; ".join(fault.message for fault in data.faults)
    if arch is None or not arch.kinds:
        doubts = [*doubts, *_list_other_layers(data)]
    normed = data.flag("use_qk_norm") or data.flag("qk_layernorm")
    if normed and not (arch and arch.qk_norm) and config.get("model_type") not in _UNWEIGHTED:
        doubts = [*doubts, "norms of queries and keys are not counted"]
    return arch, "; ".join(doubts)


def _list_other_layers(data: ConfigValues) -> Iterator[str]:
    """Layers that have no attention, where the file lists the kind of each."""
    kinds = data.data.get("layer_types", data.data.get("layers_block_type"))
    named = [kind for kind in kinds if isinstance(kind, str)] if isinstance(kinds, list) else []
    others = [kind for kind in named if not kind.endswith("attention") or kind in _NO_ATTENTION]
    if others:
        names = join_words([clip(kind, 30) for kind in sorted(set(others))[:3]], "and")
        yield f"{len(others)} of {len(named)} layers are {names}, counted as attention"


def list_impossible(config: Mapping[str, object]) -> list[SizeFault]:
    """Sizes that no model has, each with its keys: of a type that is not known only those that no
    type has."""
    _, data, _ = _examine(config, "")
    kind = data.data.get("model_type")
    known = kind is None or (isinstance(kind, str) and kind in FAMILIES)
    wrong = [fault for fault in data.faults if fault.keys]
    return wrong if known else [fault for fault in wrong if data.has_wrong_number(fault)]


def _examine(
    config: Mapping[str, object], name: str
) -> tuple[Architecture | None, ConfigValues, Sequence[str]]:
    """The sizes, the part of the file that they are from with its faults, and doubts."""
    inner, doubts = _text(config)
    inner = complete_layers(inner)
    kind = inner.get("model_type")
    family = FAMILIES.get(kind) if isinstance(kind, str) else None
    if family is None:
        what = (
            f"model_type '{clip(kind)}'" if isinstance(kind, str) else "a file without model_type"
        )
        doubts.append(f"unknown {what}: counted like Llama, which may be inexact")
        family = _like(inner)
    data = ConfigValues(inner)
    arch = _built(data, family, name)
    for table in (ADJUSTMENTS, HYBRIDS):
        if arch is not None and isinstance(kind, str) and kind in table:
            arch = table[kind](arch, data)
    return arch, data, doubts


def _text(config: Mapping[str, object]) -> tuple[Mapping[str, object], list[str]]:
    """The part that is about text, and a doubt where there are others."""
    inner = config.get("text_config")
    sees = any(isinstance(config.get(f"{part}_config"), dict) for part in ("vision", "audio"))
    doubts = ["multimodal model: only the text part is counted"] if sees else []
    if not isinstance(inner, dict):
        return config, doubts
    outer = {key: config[key] for key in ("model_type", "tie_word_embeddings") if key in config}
    return {**outer, **inner}, doubts


def _built(data: ConfigValues, family: ModelFamily, name: str) -> Architecture | None:
    keys = {**KEYS, **family.keys}
    optional = (*_OPTIONAL, "ffn") if family.four else _OPTIONAL
    found = {
        size: (data.size if size in optional else data.need)(names, family.defaults.get(size))
        for size, names in keys.items()
    }
    fields: dict[str, Any] = {**family.has, **found, **_flags(data, family)}
    hidden, heads = fields["hidden"], fields["heads"]
    if not (family.latent or data.faults):
        data.add_conflicts(found, keys)
        data.check_head_dim(str(data.data.get("model_type")), found, keys)
    fields["kv_heads"] = fields["kv_heads"] or heads
    fields["head_dim"] = fields["head_dim"] or hidden // heads
    fields["ffn"] = fields["ffn"] or 4 * hidden
    if family.learned is not None:
        fields["positions"] = data.need(keys["most"]) + family.learned
    fields |= _rotation(data) | _dropout(data) | _constants(data)
    if family.latent:
        mla = _latent(data)
        fields |= {"mla": mla, "kv_heads": heads, "head_dim": mla.nope_dim + mla.rope_dim}
    if family.experts is not None and not _has_few_experts(data, family):
        experts = _experts(data, fields["layers"], fields["ffn"])
        fields["experts"] = experts._replace(**family.experts)
    return None if data.faults else Architecture(name=name, **fields)


def _flags(data: ConfigValues, family: ModelFamily) -> dict[str, bool]:
    return {
        field: data.flag(key)
        for key, fields in family.flags.items()
        for field in fields
        if data.data.get(key) is not None
    }


def _rotation(data: ConfigValues) -> dict[str, Any]:
    """How queries and keys are rotated, as far as the file says it: transformers 5 nests it."""
    nested = data.data.get("rope_parameters")
    said = {**data.data, **(nested if isinstance(nested, dict) else {})}
    for key in ("rope_theta", "partial_rotary_factor", "rotary_pct"):
        if isinstance(said.get(key), str):
            data.refuse(key, said[key], "a number")
    base, part = said.get("rope_theta"), said.get("partial_rotary_factor", said.get("rotary_pct"))
    fields: dict[str, Any] = {}
    if isinstance(base, (int, float)) and 1 < base <= _FASTEST and base == int(base):
        fields["rotary_base"] = int(base)
    if isinstance(part, (int, float)) and 0 < part <= 1:
        fields["rotary_percent"] = float(part)
    return fields


def _dropout(data: ConfigValues) -> dict[str, bool]:
    """What is dropped out, as far as the file has probabilities."""
    rates = {field: data.data.get(data.name(keys)) for field, keys in DROPOUT.items()}
    return {field: rate > 0 for field, rate in rates.items() if isinstance(rate, (int, float))}


def _constants(data: ConfigValues) -> dict[str, float]:
    """Numbers between 0 and 1, as far as the file has them."""
    held = {field: data.data.get(data.name(keys)) for field, keys in CONSTANTS.items()}
    return {
        field: float(value)
        for field, value in held.items()
        if isinstance(value, (int, float)) and 0 < value < 1
    }


def _latent(data: ConfigValues) -> Mla:
    needed = {size: data.need(keys) for size, keys in LATENT.items() if size != "q_rank"}
    return Mla(q_rank=data.size(LATENT["q_rank"]), **needed)


def _has_few_experts(data: ConfigValues, family: ModelFamily) -> bool:
    """Whether the number of experts says that there are none."""
    count = data.data.get(data.name(EXPERTS["count"]))
    return type(count) is int and count < family.fewest_experts


def _experts(data: ConfigValues, layers: int, ffn: int) -> Experts:
    keys = {"experts": EXPERTS["count"], "experts_active": EXPERTS["active"]}
    before = len(data.faults)
    count, active = (data.need(each) for each in keys.values())
    if len(data.faults) == before:
        data.add_conflicts({"experts": count, "experts_active": active}, keys)
    width = data.size(EXPERTS["ffn"], ffn) or ffn
    shared = (data.size(EXPERTS["shared"], 0, least=0) or 0) * width
    return Experts(
        count,
        active,
        width,
        shared_ffn=data.size(EXPERTS["shared_ffn"], shared, least=0) or 0,
        dense_layers=_count_dense(data, layers),
        every=data.size(EXPERTS["every"], 1) or 1,
    )


def _count_dense(data: ConfigValues, layers: int) -> int:
    """Layers without experts: transformers 5 lists the kind of each."""
    kinds, listed = data.data.get("mlp_layer_types"), data.data.get("mlp_only_layers")
    if isinstance(kinds, list):
        return min(kinds.count("dense"), layers)
    listed = listed if isinstance(listed, list) else []
    dense = {n for n in listed if type(n) is int and 0 <= n < layers}
    return data.size(EXPERTS["dense_layers"], len(dense), least=0) or 0


def _like(data: Mapping[str, object]) -> ModelFamily:
    """Llama's family, with what the file of an unknown type says otherwise."""
    has: dict[str, Any] = {"gated": data.get("hidden_act") not in _UNGATED}
    if "rms_norm_eps" not in data and ("layer_norm_eps" in data or "layer_norm_epsilon" in data):
        has["layer_norm"] = True
    counts = (data.get(key) for key in EXPERTS["count"])
    some = any(isinstance(count, int) and count > 1 for count in counts)
    if not some and all(data.get(key) is None for key in KEYS["ffn"]):
        has["gated"] = False
    latent = data.get("kv_lora_rank") is not None
    flags = {**LLAMA.flags, "qkv_bias": ("qkv_bias",)}
    return ModelFamily(has, flags, four=True, experts={} if some else None, latent=latent)
