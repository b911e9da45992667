"""Quantized weights under FSDP: what bitsandbytes must be given, and what cannot be sharded."""

from __future__ import annotations

import pytest

from jobgen.model.decision import PlanCheck
from jobgen.resolve.quantized import UNSHARDED
from tests.resolve.made import job, plan

MODEL = "model: {layers: 8, hidden: 64, heads: 8, vocab: 1000}, micro_batch: 1"


@pytest.mark.parametrize(
    ("train", "source", "message"),
    [
        ("strategy: fsdp", "", "bnb_4bit_quant_storage=torch.bfloat16"),
        ("strategy: fsdp", "", "bnb_4bit_quant_storage unset (uint8), FSDP1 stops"),
        ("strategy: fsdp2, precision: fp16", "", "bnb_4bit_quant_storage=torch.float16"),
        ("strategy: fsdp2", "BitsAndBytesConfig(bnb_4bit_quant_storage=x)", ""),
        ("strategy: zero2", "", ""),
    ],
)
def test_fsdp_needs_4_bit_weights_in_a_floating_type(train: str, source: str, message: str) -> None:
    text = job(train=f"{{{train}, lora: {{rank: 8, bits: 4}}, {MODEL}}}")
    notes = [
        f"{note.message}; {note.hint}"
        for note in plan(text, sources={"train.py": source}).notes
        if "bnb_4bit" in note.message
    ]
    assert [message in note for note in notes] == ([True] if message else [])
    lora = text.replace("bits: 4", "bits: 16")
    assert not any("bnb_4bit" in note.message for note in plan(lora).notes)


def find_checks(train: str, source: str = "", run: str = "train.py") -> list[PlanCheck]:
    text = job(run=run, train=f"{{{train}, {MODEL}}}")
    return [c for c in plan(text, sources={"train.py": source}).checks if c.code == UNSHARDED]


@pytest.mark.parametrize(
    ("strategy", "error"),
    [
        ("fsdp", "Cannot flatten integer dtype tensors"),
        ("fsdp-no-shard", "Cannot flatten integer dtype tensors"),
        ("fsdp2", "object has no attribute 'CB'"),
        ("zero3", "ZeRO-3 does not shard the 8-bit weights of bitsandbytes"),
    ],
)
def test_fsdp_and_zero3_cannot_shard_weights_in_8_bits(strategy: str, error: str) -> None:
    (check,) = find_checks(f"strategy: {strategy}, lora: {{bits: 8}}")
    assert check.status == "fail"
    assert error in check.message
    assert "bits: 4, with bnb_4bit_quant_storage=torch.bfloat16" in check.hint
    assert check.hint.endswith(", or strategy: auto")
    assert check.place is not None
    assert check.place.line


@pytest.mark.parametrize(
    ("train", "source"),
    [
        ("strategy: ddp, lora: {bits: 8}", ""),
        ("strategy: zero2, lora: {bits: 8}", ""),
        ("strategy: zero3, lora: {bits: 4}", ""),
        ("strategy: zero3, lora: {bits: 8}", "from transformers import QuantoConfig"),
        ("strategy: fsdp2, lora: {bits: 4}", ""),
        ("strategy: fsdp2, lora: 8", ""),
        ("strategy: fsdp2, lora: {bits: 8}", "from transformers import TorchAoConfig"),
        ("strategy: fsdp2, framework: torchtitan, lora: {bits: 8}", ""),
    ],
)
def test_weights_that_nothing_shards_or_another_library_quantizes_are_not_refused(
    train: str, source: str
) -> None:
    run = "-m torchtitan.train --module llama3" if "torchtitan" in train else "train.py"
    assert find_checks(train, source, run) == []
