"""The model of a published run: of the catalogue, or by its sizes alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from planner_cells import is_no, is_yes, read_count, read_number

from jobgen.strategy.shapes.architecture import Architecture
from jobgen.strategy.shapes.count import build_model
from jobgen.strategy.shapes.table import find_model, suggest_models


def adds_up(said: Mapping[str, str]) -> bool:
    params = read_number(said["params"])
    return not params or abs(build_model(read_shape(said)).count / params - 1) < _CLOSE


_CLOSE = 0.3
"""By how much the parameters of a model may differ from what its sizes come to."""
_ALIKE = 0.02
"""By how much the parameters of a model may differ from those of the catalogue's."""


def read_shape(said: Mapping[str, str]) -> Architecture:
    """The model of the catalogue with this name and these sizes, or what the sizes alone say; tied
    only if both say so."""
    plain, params = _plain_shape(said), read_number(said["params"])
    start, model = re.match("[a-z]*", said["model"].lower()), said["model"].partition(",")[0]
    for name in (model, *suggest_models(model)):
        known = find_model(name)
        if known is None or (start and start[0] not in known.name.lower()):
            continue  # MPT-125m is like opt-125m in name and sizes alone
        if (known.layers, known.hidden) != (plain.layers, plain.hidden):
            continue
        known = known._replace(tied=known.tied and plain.tied)
        if params and abs(build_model(known).count / params - 1) < _ALIKE:
            return known._replace(
                name=plain.name,
                vocab=plain.vocab if read_number(said["vocab"]) else known.vocab,
                fused_qkv=plain.fused_qkv or known.fused_qkv,
                rotary=known.rotary if plain.rotary == "whole" else plain.rotary,
                activation=_find_activation(said, known),
            )
    return plain


def _find_activation(
    said: Mapping[str, str], known: Architecture
) -> Literal["fused", "eager", "relu", "squared"]:
    """litgpt's GELU is always one kernel (litgpt/model.py, ``GptNeoxMLP`` and ``GemmaMLP``)."""
    return "fused" if _is_litgpt(said) and known.activation == "eager" else known.activation


def _is_litgpt(said: Mapping[str, str]) -> bool:
    return "litgpt" in said["source"] + said["notes"]


def _plain_shape(said: Mapping[str, str]) -> Architecture:
    hidden = read_count(said["hidden"], 0)
    heads = read_count(said["heads"], max(1, hidden // 128))
    gated = is_yes(said["gated"])
    # MPT's layers have no biases; what is named for having no gate differs from Llama in that alone
    foundry = said["model"].startswith("MPT")
    plain = foundry or "no gate" in said["notes"]
    classic = not gated and not plain
    litgpt = _is_litgpt(said)
    return Architecture(
        name=said["model"],
        layers=read_count(said["layers"], 1),
        hidden=hidden,
        heads=heads,
        kv_heads=read_count(said["kv_heads"], heads),
        head_dim=read_count(said["head_dim"], hidden // heads),
        ffn=read_count(said["ffn"], 4 * hidden),
        vocab=read_count(said["vocab"], 51200),
        gated=gated,
        # litgpt's models always have an output layer of their own (litgpt/model.py, ``GPT``)
        tied=not (litgpt or is_no(said["tied"])),
        layer_norm=not gated and "no gate" not in said["notes"],
        norm_bias=classic,
        qkv_bias=classic,
        out_bias=classic,
        mlp_bias=classic,
        fused_qkv=litgpt,
        rotary=_get_rotary(said),
    )


def _get_rotary(said: Mapping[str, str]) -> Literal["whole", "part", ""]:
    if _is_litgpt(said):
        return "part"  # beside what is not rotated, of however many elements (litgpt/model.py)
    # MPT learns positions, unless it has ALiBi (llm-foundry, models/mpt/configuration_mpt.py)
    none = said["model"].startswith("MPT") or "ALiBi" in said["notes"]
    return "" if none else "whole"
