"""Other words for what the readers of published runs look for: cells are rewritten before they are
read, so that each reader knows one word for one thing."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

_TYPES = (
    (r"\bb(?:rain )?float ?16\b", "bf16"),
    (r"single precision \(float ?32\)|\bfloat ?32\b|\bsingle precision\b", "fp32"),
    (r"half precision \(fp16\)|\bfloat ?16\b|\bhalf precision\b", "fp16"),
    (r"8-bit float \(FP8\)", "FP8"),
    (r"\bNF4\b", "nf4"),
    (r"\bPyTorch\b", "torch"),
    (r"\bone scale per row\b|\bscaled row by row\b", "rowwise"),
    (r"\brank-(\d+) (Q?LoRA)\b", r"\2 r=\1"),
)
_SYNONYMS = {
    "precision": (
        (
            r"frozen (?:weights|base) (?:quantized to |in )(nf4|int4|int8), the rest in ",
            r"\1 base + ",
        ),
        (r"frozen (?:weights|base) (?:quantized to |in )(nf4|int4|int8|bf16|fp16)", r"\1 base"),
        (r"frozen (?:weights|base) (nf4|int4|int8)-quantized", r"\1 base"),
        (r"(?:LoRA matrices|LoRA weights) in fp32", "fp32 adapters"),
        (r"\b(?:purely|everything in|entirely|fully) bf16", "pure bf16"),
        (r"\bbf16 throughout", "pure bf16"),
        (r"^true bf16\b", "bf16-true"),
        (r"gradients (?:accumulated|summed up|added up) in fp32", "fp32 grad accumulation"),
        (r"shards its states itself[^;]*", "own ZeRO-1"),
        (
            r"weights (?:kept|held|loaded|stored) in fp32|casts the weights up to fp32",
            "fp32 params",
        ),
        (r"weights, gradients and optimizer states in fp32", "fp32 params"),
        (r"mixed_precision: (DEFAULT|PURE)", r"mp=\1"),
        (r"whose gradients are bf16 too", "bf16 grads"),
        (r"^bf16 compute with (?=.*fp32 params)", "bf16 mixed, "),
    ),
    "optimizer": (
        (r"stepped (?:inside|in) the backward pass|in backward", "in bwd"),
        (r"moments in bf16", "bf16 moments"),
    ),
    "trainable": (
        (r"\bGPTQ (4|8)-bit", r"gptq int\1"),
        (r"\bquery and value (?:projections|layers)", "q,v"),
        (r"_proj\b", ""),
        (r" and ", ","),
    ),
    "strategy": (
        (r"fully sharded data parallel(?:ism)?", "FSDP"),
        (r"\bZeRO stage (\d)", r"ZeRO-\1"),
        (r"FSDP that behaves like ZeRO-2", "FSDP/ZeRO-2-like"),
        (r"--use-distributed-optimizer", "distributed optimizer"),
    ),
    "offload": (
        (r"\bhost(?:'s)? memory\b|\bRAM\b", "cpu"),
        (r"^(?:saved )?activations (?:go |are moved )?to cpu$", "activations"),
    ),
    "recompute": (
        (r"use_reentrant=False", "not reentrant"),
        (r"use_reentrant=True", "reentrant"),
        (r"inside (?:the )?FSDP-wrapped modules", "inside FSDP's units"),
        (r"single GPU: no activation checkpointing", "none on 1 GPU"),
        (r"^the recipe's default: |^(?:each|every) (?:transformer )?(?:block|layer) ", "full, "),
        (r"^only (?=norms|activation)", "selective: "),
        (r"^selective activation (?:recomputation|checkpointing)$", "selective"),
    ),
    "mem_metric": ((r"^(?:a peak of|maximum) memory", "peak memory"),),
    "notes": (
        (r"(?:whole )?logits (?:upcast to|in) fp32", "fp32 logits"),
        (r"cross-entropy (?:computed chunk by chunk|in chunks)|loss in chunks", "chunked loss"),
        (r"sampl(?:es? packing on|es packed into)", "packed into"),
        (r"(?:padded|padding) instead of (?:packed|packing)", "padded, not packed"),
        (r"samples of (?:varying|different) lengths?", "variable-length data"),
        (r"communication (?:is )?not overlapped", "without overlap of communication"),
        (r"sequence parallel(?:ism)? off", "no sequence parallelism"),
        (r"double quantization off|single quantization only", "without double quantization"),
        (r"autocast off", "without autocast"),
        (r"asynchronous tensor parallel(?:ism)?", "async TP"),
        (r"optimizer state sharded across every rank", "optimizer states over all ranks"),
        (r"in-place cross-entropy", "cross-entropy in place"),
        (r"all-gather (?:runs )?in float8", "float8 all-gather"),
        (r"\bcut at max_seq_length", "truncates max_seq_length"),
        (r"cuts the local batch of (\d+) into", r"local batch \1 split in"),
        (
            r"attention stays inside each sample, (\d+) tokens",
            r"attention within samples of \1 tokens",
        ),
        (r"without the k-bit preparation", "not prepared"),
        (
            r"logits[^;]*(?:loop holds on to|live on in its loop)",
            r"\g<0>; its loop keeps the logits",
        ),
        (r"bucket sizes: (\S+) to reduce", r"reduce bucket \1"),
        (r"\brotary embedding\b|\bRoPE\b", "rotation"),
        (r"\beager attention\b", "attention written out"),
        (r"incl\. its attention", "with its attention"),
        (r"CUDA graphs off", "no CUDA graphs"),
        (r"CUDA graphs over the full iteration", "full-iteration CUDA graphs"),
        (
            r"router and preprocessing captured as CUDA graphs",
            "CUDA graphs of router and preprocessing",
        ),
        (r"\bno tp_comm_overlap", "without tp_comm_overlap"),
        (r"expert tensor parallel (\d+)", r"ETP \1"),
        (r"dropout of (\S+) on hidden states", r"hidden dropout \1"),
        (r"batch size is for each data-parallel rank", "batch per DP"),
        (r"\bungated (\w+(?: \w+)?)", r"\1, no gate"),
        (r"LoRA matrices stored in bf16", "adapters stored as bf16"),
    ),
}
"""Column → words that mean the same, as patterns, and the word that is read."""


def say_alike(line: Mapping[str, str | None]) -> Mapping[str, str]:
    """The cells in the words that are read; a column that the file does not have is empty."""
    said = defaultdict(str, {name: cell or "" for name, cell in line.items()})
    for column, table in _SYNONYMS.items():
        for pattern, word in (*_TYPES, *table):
            said[column] = re.sub(pattern, word, said[column], flags=re.IGNORECASE)
    return said
