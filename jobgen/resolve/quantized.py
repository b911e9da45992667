"""Whether a strategy can shard the quantized weights of a job with adapters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from jobgen.model.decision import PlanCheck
from jobgen.resolve.inputs import Inputs

if TYPE_CHECKING:
    from jobgen.model.train import Train
    from jobgen.strategy import Note, Strategy

UNSHARDED = "J268"
_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
_QUANT_STORAGE = "bnb_4bit_quant_storage"
_OTHERS = re.compile(r"torchao|quanto|hqq|eetq", re.IGNORECASE)
"""Libraries that quantize to 8 bits in ways of their own."""


def _list_texts(look: Inputs) -> tuple[str, ...]:
    """What may show how the program quantizes: the job's commands and the Python files."""
    job = look.job
    return (job.run, *job.list_setup(), *job.env.values(), *(look.facts.sources or {}).values())


def has_other_quantizer(look: Inputs) -> bool:
    """Whether the job names another library than bitsandbytes that quantizes weights."""
    return any(_OTHERS.search(text) for text in _list_texts(look))


def check_quantized(look: Inputs, decided: Strategy, train: Train) -> Iterator[PlanCheck]:
    """A failure where FSDP or ZeRO-3 would have to shard the 8-bit weights of bitsandbytes."""
    from jobgen.strategy.supported import can_shard

    able = can_shard(train.strategy.type, train, decided.framework)
    if able or has_other_quantizer(look):
        return
    weights = "the 8-bit weights of bitsandbytes"
    messages = {
        "fsdp": f"FSDP cannot shard {weights}, and stops: Cannot flatten integer dtype tensors",
        "fsdp2": f"FSDP cannot shard {weights}, and stops: "
        "'Parameter' object has no attribute 'CB'",
        "zero": f"ZeRO-3 does not shard {weights}: each GPU keeps all of them",
    }
    message = messages[decided.trait.family]
    dtype = f"torch.{_DTYPES[decided.precision]}"
    hint = f"set bits: 4, with {_QUANT_STORAGE}={dtype} in BitsAndBytesConfig, or strategy: auto"
    yield PlanCheck("fail", message, UNSHARDED, hint, look.spec.find_place("train", "lora", "bits"))


def note_quantized(look: Inputs, decided: Strategy, train: Train) -> Iterator[Note]:
    """How bitsandbytes must store 4-bit weights for FSDP to shard them, unless the program has it.

    FSDP1 flattens tensors of one floating dtype only (torch 2.13, fsdp/_flat_param.py); accelerate
    leaves integers out of FSDP2 (1.15, utils/fsdp_utils.py, ``fsdp2_prepare_model``).
    """
    from jobgen.strategy import Note

    family = decided.trait.family
    if train.lora is None or train.lora.bits != 4 or family not in {"fsdp", "fsdp2"}:
        return
    if any(_QUANT_STORAGE in text for text in _list_texts(look)):
        return
    otherwise = "FSDP1 stops" if family == "fsdp" else "accelerate shards no 4-bit weights"
    message = f"the plan shards 4-bit weights; with {_QUANT_STORAGE} unset (uint8), {otherwise}"
    dtype = f"torch.{_DTYPES[decided.precision]}"
    hint = f"set {_QUANT_STORAGE}={dtype} in BitsAndBytesConfig, the dtype of the other weights"
    yield Note(message, ("train", "lora"), hint=hint)
