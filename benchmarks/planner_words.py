"""What the words of published runs mean: the first pattern that a cell matches, and its meaning."""

from __future__ import annotations

import re
from collections.abc import Mapping

Table = tuple[tuple[str, str], ...]

RECIPES: Table = (
    (r"fp32 grad.*own ZeRO|BF16Optimizer, own", "two-grads"),
    (r"fp32 grad accumulation", "main-grads"),
    (r"fp32 params|mp=DEFAULT|mp=PURE|autocast|16-mixed|\b(?:amp|AMP)\b", "autocast"),
    (r"^fp16 mixed|bf16 mixed|^fp8 mixed", "mixed"),
    (r"^fp32", "fp32"),
    (r"pure|bf16-true|base|nf4|int[48]|[48]-?bit", "pure"),
    (r"FP8", "main-grads"),
)
OPTIMIZERS: Table = (
    (r"(?i)paged", "paged"),
    (r"(?i)8-?bit", "adamw8bit"),
    (r"(?i)adafactor", "adafactor"),
    (r"(?i)momentum", "momentum"),
    (r"(?i)sgd", "sgd"),
    (r"(?i)lion", "lion"),
    (r"(?i)muon", "muon"),
)
STRATEGIES: Table = (
    (r"(?i)SHARD_GRAD_OP|FSDP/ZeRO-2", "fsdp-grad-op"),
    (r"(?i)HYBRID_SHARD|HSDP", "fsdp-hybrid"),
    (r"(?i)NO_SHARD", "fsdp-no-shard"),
    (r"(?i)FSDP ?2|fully_shard", "fsdp2"),
    (r"(?i)without ZeRO|device_map", "ddp"),
    (r"(?i)FSDP|fully sharded", "fsdp"),
    (r"(?i)ZeRO[- ]?(?:stage[- ]?)?3|ZeRO-Infinity", "zero3"),
    (r"(?i)ZeRO[- ]?(?:stage[- ]?)?2|ZeRO-Offload", "zero2"),
    (r"(?i)ZeRO[- ]?(?:stage[- ]?)?1|distributed optimizer", "zero1"),
    (r"(?i)3D|TP ?\+ ?PP|\bTP|\bPP|tensor parallel|pipeline|Megatron", "3d"),
)
FRAMEWORKS: Table = (
    (r"torchtitan", "torchtitan"),
    (r"automodel", "automodel"),
    (r"nanotron", "nanotron"),
    (r"torchtune", "torchtune"),
    (r"lightning-thunder", "thunder"),
    (r"litgpt", "litgpt"),
    (r"bigscience|gpt-neox|megatron-deepspeed", "megatron-deepspeed"),
    (r"megatron|nemo|flagscale", "megatron"),
    (r"foundry", "mosaic"),
    (r"-paddle/", "paddle"),
    (r"nanogpt", "nanogpt"),
    (r"internevo|internlm/", "internevo"),
)
RECOMPUTES: Table = (
    (r"(?i)^(selective|SAC\b|op\b)", "selective"),
    (
        r"(?i)^(full|per-block|per recipe|((activation|gradient) )?checkp|yes|on$|1$|all|[AG]C\b)",
        "full",
    ),
)
TARGETS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"o,gate,up,down|all.linear", ()),
    (
        r"q,k,v,gate,up,down",
        ("q_proj", "k_proj", "v_proj", "qkv", "gate_proj", "up_proj", "down_proj"),
    ),
    (r"gate,up,down", ("gate_proj", "up_proj", "down_proj")),
    (r"q,k,v,o|attention", ("q_proj", "k_proj", "v_proj", "o_proj", "qkv")),
    (r"q,k,v", ("q_proj", "k_proj", "v_proj", "qkv")),
    (r"q,v", ("q_proj", "v_proj")),
    (r"c_attn", ("q_proj", "k_proj", "v_proj", "qkv")),
)


def meaning(table: Table, words: str, default: str) -> str:
    """What the first pattern of the table that these words match stands for."""
    return next((name for found, name in table if re.search(found, words)), default)


def framework(said: Mapping[str, str], strategy: str) -> str:
    """The framework of a row, by its source and the words of its precision."""
    words = f"{said['source']} {said['precision']}".lower()
    usual = "deepspeed" if strategy.startswith("zero") else "transformers"
    return meaning(FRAMEWORKS, words, usual)
