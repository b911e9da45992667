"""Keys of ``train`` that the plan counts and the program is not told: each is named."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from jobgen.model.decision import PlanCheck
from jobgen.model.train import Train
from jobgen.resolve.measured import note_compiled
from tests.resolve.made import job, plan

if TYPE_CHECKING:
    from jobgen.strategy.measured_model import MeasuredModel

MODEL = "model: {layers: 8, hidden: 64, heads: 8, vocab: 1000}, micro_batch: 1"
TITAN = "-m torchtitan.train --module llama3 --config"


def find_checks(train: str, run: str = "train.py") -> list[PlanCheck]:
    made = plan(job(run=run, train=f"{{{train}, {MODEL}}}"))
    return [check for check in made.checks if check.code == "J256"]


@pytest.mark.parametrize(
    ("train", "run", "message"),
    [
        (
            "framework: megatron, lora: 16",
            "pretrain_gpt.py",
            "train.lora is only counted in the plan: Megatron-LM has no adapters",
        ),
        (
            "framework: torchtitan, lora: 16",
            f"{TITAN} llama3_8b",
            "train.lora is only counted in the plan: torchtitan trains all parameters",
        ),
        (
            "framework: torchtitan, optimizer: adamw8bit",
            f"{TITAN} llama3_8b",
            "train.optimizer: adamw8bit is only counted in the plan: torchtitan uses",
        ),
        (
            "framework: megatron, optimizer: muon",
            "pretrain_gpt.py",
            "train.optimizer: muon is only counted in the plan: Megatron-LM uses adam",
        ),
        (
            "framework: hf-trainer, optimizer: muon",
            "train.py",
            "train.optimizer: muon is only counted in the plan: the Trainer has no such --optim",
        ),
        (
            "framework: megatron, pure: true",
            "pretrain_gpt.py",
            "train.pure is only counted in the plan: Megatron-LM keeps an fp32 copy",
        ),
        (
            "framework: hf-trainer, strategy: zero2, pure: true",
            "train.py",
            "train.pure is only counted in the plan: DeepSpeed keeps an fp32 copy",
        ),
        (
            "framework: megatron, loss: fused",
            "pretrain_gpt.py",
            "train.loss: fused is only counted in the plan: Megatron-LM computes the loss",
        ),
        (
            "framework: torchtitan, loss: fused",
            f"{TITAN} llama3_8b",
            "train.loss: fused is only counted in the plan: torchtitan has a chunked loss",
        ),
        (
            "framework: hf-trainer, loss: chunked",
            "train.py",
            "train.loss: chunked is only counted in the plan: the Trainer has an option",
        ),
        (
            "framework: megatron, compiled: true",
            "pretrain_gpt.py",
            "train.compiled is only counted in the plan: Megatron-LM compiles single functions",
        ),
    ],
)
def test_a_key_that_only_the_plan_obeys_is_named(train: str, run: str, message: str) -> None:
    (check,) = find_checks(train, run)
    assert check.message.startswith(message)
    assert (check.status, check.place and check.place.line) == ("warn", 5)
    assert check.hint


@pytest.mark.parametrize(
    ("train", "run"),
    [
        ("framework: torchtitan, lora: 16", f"{TITAN} llama3_8b_lora"),
        ("framework: torchtitan, pure: true", f"{TITAN} llama3_8b"),
        ("framework: megatron, optimizer: muon", "pretrain_gpt.py --optimizer muon"),
        ("framework: hf-trainer, loss: fused, compiled: true", "train.py"),
        ("framework: torchtitan, loss: chunked, compiled: true", f"{TITAN} llama3_8b"),
        ("framework: torch, loss: fused, compiled: true", "train.py"),
        ("framework: hf-trainer, optimizer: adamw8bit, lora: 16, pure: true", "train.py"),
        ("framework: torch, optimizer: adamw8bit, lora: 16, pure: true", "train.py"),
        ("framework: none, optimizer: muon, lora: 16, strategy: zero2, pure: true", "train.py"),
    ],
)
def test_what_the_program_has_or_builds_itself_is_not(train: str, run: str) -> None:
    assert find_checks(train, run) == []


@pytest.mark.parametrize(
    ("train", "hint"),
    [
        (
            "framework: megatron, optimizer: adamw8bit",
            "remove optimizer, or set it to adamw, sgd or muon",
        ),
        ("framework: megatron, optimizer: muon", "remove optimizer, or add --optimizer to run:"),
        (
            "framework: hf-trainer, optimizer: muon",
            "remove optimizer, or set it to adamw, adamw8bit, adafactor, lion or sgd",
        ),
    ],
)
def test_an_optimizer_that_the_framework_lacks_is_not_to_be_passed(train: str, hint: str) -> None:
    (check,) = find_checks(train)
    assert check.hint == hint


def find_notes(train: str) -> list[str]:
    made = plan(job(train=f"{{{train}, seq_len: 4096, micro_batch: 1, strategy: auto}}"))
    return [note.message for note in made.notes if note.message.startswith("strategy: auto chose")]


def test_what_auto_chose_without_a_framework_must_be_applied_by_the_program() -> None:
    large, small = "meta-llama/Llama-3.1-70B", "meta-llama/Llama-3.2-1B"
    (note,) = find_notes(f"framework: none, model: {large}")
    assert "activation_checkpointing full" in note
    assert "with framework: none jobgen passes nothing on" in note
    assert find_notes(f"framework: torch, model: {large}") == []
    assert find_notes(f"framework: none, model: {small}, activation_checkpointing: full") == []


def test_a_strategy_that_is_set_by_hand_without_a_framework_must_be_applied_too() -> None:
    text = job(train="{model: gpt2, framework: none, strategy: zero1, micro_batch: 1}")
    told = "the program must apply ZeRO-1 itself"
    by_hand = plan(text, sets=["train.strategy=zero1"])
    assert [told in note.message for note in by_hand.notes].count(True) == 1
    assert not any(told in note.message for note in plan(text).notes)
    passed = plan(text, sets=["train.strategy=zero1", "train.framework=deepspeed"])
    assert not any(told in note.message for note in passed.notes)


def test_a_measured_model_is_not_estimated_as_compiled() -> None:
    measured = cast("MeasuredModel", object())
    for train, number in ((Train(compiled=True), 1), (Train(), 0)):
        assert len([*note_compiled(train, measured)]) == number
        assert not [*note_compiled(train, None)]


@pytest.mark.parametrize(
    ("train", "told"),
    [
        ("framework: none, loss: fused", ["must compute it with Liger or cut cross entropy"]),
        ("framework: torch, loss: chunked", ["must compute it in chunks"]),
        ("framework: none, compiled: true", ["must call torch.compile"]),
        ("framework: torchtitan, loss: chunked", ["ChunkedLossWrapper in the function of"]),
        ("framework: torchtitan, compiled: true", []),
        ("framework: hf-trainer, loss: fused, compiled: true", ["needs the package liger-kernel"]),
        ("framework: megatron, loss: fused, compiled: true", []),
    ],
)
def test_a_loss_that_the_program_must_compute_itself_is_noted(train: str, told: list[str]) -> None:
    made = plan(job(train=f"{{{train}, {MODEL}}}"))
    notes = [note.message for note in made.notes if "train.loss" in note.message]
    notes += [note.message for note in made.notes if "train.compiled" in note.message]
    assert len(notes) == len(told)
    assert all(words in note for words, note in zip(told, notes, strict=True))
