"""The adapters of a published run, as its columns, notes and source have them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from planner_cells import is_nemo, is_recent
from planner_words import (
    TARGETS,
)

from jobgen.strategy.setup import Adapters

_RANK = re.compile(r"\br(?:ank)? ?=? ?(\d+)")


_FOUR_BITS = re.compile(r"QLoRA(?!.*int8)|nf4|fp4 base|int4|4-?bit", re.IGNORECASE)


_EIGHT_BITS = re.compile(r"int8|8-?bit", re.IGNORECASE)


_PREPARED = re.compile(r"/trl|\bSFT|/peft|kbit", re.IGNORECASE)
"""Sources whose quantized models peft prepares."""
_NO_AUTOCAST = re.compile(r"method_comparison|fms-acceleration")
"""Sources whose adapters on 16 bits are trained without autocast (peft, method_comparison/run.py,
``use_amp``; fms-acceleration, scripts/benchmarks/scenarios.yaml, without ``bf16``)."""
_NARROW = r"^(pure bf16|nf4 base \+ bf16)"
"""Precisions in which nothing is fp32."""


def _is_narrowed(said: Mapping[str, str]) -> bool:
    """Whether a program makes adapters 16 bits wide: trl leaves those of a model that ZeRO-3 shards
    as the base is stored (``autocast_adapter_dtype=False``)."""
    return re.search(r"model\.half\(\)|adapters stored as bf16", said["notes"]) is not None


def read_adapters(said: Mapping[str, str]) -> Adapters | None:
    words = re.sub(r"\s*[,/+]\s*", ",", said["trainable"].lower().replace("_proj", ""))
    if "lora" not in words:
        return None
    rank = _RANK.search(words) or re.search(r"LoRA r ?=? ?(\d+)", said["notes"])
    nemo, automodel = is_nemo(said), "Automodel" in said["source"]
    own = automodel or re.search("torchtune|litgpt", said["source"]) is not None
    targets = next((names for found, names in TARGETS if re.search(found, words)), ())
    if nemo and not targets:
        # their benchmarks' recipes: peft.target_modules = ["linear_qkv"]
        targets = ("q_proj", "k_proj", "v_proj", "qkv")
    whole = ("embedding", "head") if "emb" in words else ()
    stored = 32 if re.search(r"^fp32|fp32 params", said["precision"]) else 16
    base = said["trainable"] + said["precision"]
    bits = 4 if _FOUR_BITS.search(base) else 8 if _EIGHT_BITS.search(base) else stored
    prepared = bits in {4, 8} and _PREPARED.search(said["source"] + said["notes"]) is not None
    prepared = prepared and not re.search(r"FSDP|ZeRO-?3", said["strategy"], re.IGNORECASE)
    return Adapters(
        int(rank[1]) if rank else 8,
        targets,
        bits,
        whole,
        prepared=prepared,
        narrow_ends=prepared and _has_narrow_ends(said),
        nested=re.search("(without|no) double quant", said["notes"]) is None,
        # NeMo's and Megatron-Bridge's adapters have no dropout unless one is asked for, and
        # torchtune's recipes and peft's comparison ask for none
        dropout=not (nemo or re.search("Automodel|torchtune|method_comparison", said["source"])),
        fused="gptq" not in words,
        cast_back="without autocast" not in said["notes"],
        joined="rotation and LoRA" in said["notes"],
        # FSDP1 flattens a unit's parameters into one tensor, which has one type; adapters that are
        # not peft's are of the type of the weight beside them (nemo_automodel, components/_peft/
        # lora.py; torchtune, modules/peft/lora.py; litgpt/lora.py); model.half() makes all narrow
        width=2 if (stored == 16 and (own or _is_flattened(said))) or _is_narrowed(said) else 4,
        keeps_inputs=_find_kept_inputs(said) if bits == 4 else "no",
        # a unit is a layer, and Fabric sets use_orig_params (litgpt/finetune/lora.py, FSDPStrategy)
        flattened="litgpt" in said["source"] and "FSDP" in said["strategy"],
        autocast=bits == 4 or _NO_AUTOCAST.search(said["source"]) is None,
    )


def _find_kept_inputs(said: Mapping[str, str]) -> Literal["no", "once", "twice"]:
    """Of how many passes litgpt's quantized matrices keep their inputs: it had bitsandbytes 0.42
    until 2025. No two samples of Alpaca are the longest; of a subset that is truncated, many are.
    """
    if "litgpt" not in said["source"] or is_recent(said):
        return "no"
    return "twice" if "truncates" in said["notes"] else "once"


def _has_narrow_ends(said: Mapping[str, str]) -> bool:
    """Whether it is trl's SFTTrainer in bf16, of 2024 or later."""
    sft = re.search(r"/trl|\bSFT", said["source"] + said["notes"]) is not None
    return sft and "bf16" in said["precision"] and is_recent(said, year=24)


def _is_flattened(said: Mapping[str, str]) -> bool:
    narrow = re.search(_NARROW, said["precision"])
    return "FSDP" in said["strategy"] and narrow is not None
