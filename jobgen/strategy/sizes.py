"""The sizes of a transformer: from job.yaml's own mapping, or from a config.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jobgen.strategy.values import Fault, Sizes

if TYPE_CHECKING:
    from jobgen.model.train import ModelShape, Train

_NAMES: Mapping[str, tuple[str, ...]] = {
    "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num"),
    "ffn": ("intermediate_size", "n_inner", "ffn_dim", "d_ff"),
    "vocab": ("vocab_size", "padded_vocab_size"),
    "experts": ("num_local_experts", "num_experts", "n_routed_experts"),
}
"""Size → its keys in transformers 5: those of Llama, GPT-2, Falcon, OPT, T5 and their like."""


def sizes(train: Train, texts: Mapping[str, bytes]) -> tuple[Sizes, list[Fault]]:
    """The sizes as far as they are known. ``texts`` are files of the workdir that app has read."""
    if train.model is None:
        return Sizes(), []
    if not isinstance(train.model, str):
        return _written(train.model), []
    content = texts.get(train.model)
    if content is None:
        return Sizes(train.model), []
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:
        message = f"{train.model} is no JSON: {error}"
        return Sizes(train.model), [Fault("J237", message, ("model",), "a model's config.json")]
    if not isinstance(data, dict):
        message = f"{train.model} holds no mapping"
        return Sizes(train.model), [Fault("J237", message, ("model",), "a model's config.json")]
    return _configured(train.model, data), []


def _written(shape: ModelShape) -> Sizes:
    return Sizes(
        layers=shape.layers,
        hidden=shape.hidden,
        heads=shape.heads,
        kv_heads=shape.kv_heads or shape.heads,
        ffn=shape.ffn or 4 * shape.hidden,
        vocab=shape.vocab,
        experts=shape.experts,
    )


def _configured(name: str, data: Mapping[str, Any]) -> Sizes:
    inner = data.get("text_config")  # of a model that also sees or hears
    data = inner if isinstance(inner, dict) else data
    found = {size: _first(data, keys) for size, keys in _NAMES.items()}
    if found["kv_heads"] is None:
        found["kv_heads"] = 1 if data.get("multi_query") is True else found["heads"]
    return Sizes(name, **found)


def _first(data: Mapping[str, Any], keys: tuple[str, ...]) -> int | None:
    values = (data.get(key) for key in keys)
    found = (v for v in values if isinstance(v, int) and not isinstance(v, bool) and v > 0)
    return next(found, None)
