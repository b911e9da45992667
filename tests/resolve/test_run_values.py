"""The batch and the sequence that run: sets where train: leaves them open."""

from __future__ import annotations

import pytest

from jobgen.model.plan import Plan
from tests.resolve.made import job, plan

LLAMA = "model: meta-llama/Llama-3.1-8B"


def planned(run: str, train: str, **keys: str) -> Plan:
    return plan(job(run=run, train=f"{{{train}}}", gpus_per_node="8", **keys))


@pytest.mark.parametrize(
    ("train", "run", "batch"),
    [
        (
            f"framework: hf-trainer, {LLAMA}",
            "train.py --per_device_train_batch_size 4 --gradient_accumulation_steps=2",
            "micro 4 x accumulation 2 x 16 ranks",
        ),
        (  # what train: says stays
            "framework: hf-trainer, micro_batch: 1",
            "train.py --per_device_train_batch_size 4 --gradient_accumulation_steps 2",
            "micro 1 x accumulation 2 x 16 ranks",
        ),
        (
            "framework: hf-trainer, micro_batch: 1, global_batch: 64",
            "train.py --gradient_accumulation_steps 2",
            "micro 1 x accumulation 4 x 16 ranks",
        ),
        (
            "framework: megatron, strategy: 3d, tp: 8",
            "pretrain_gpt.py --micro-batch-size 2 --global-batch-size 32",
            "micro 2 x accumulation 8 x 2 ranks",
        ),
        (  # of two alike, the last
            "framework: none, strategy: fsdp2",
            "train.py --per_device_train_batch_size 4 --per-device-train-batch-size 2",
            "micro 2 x accumulation 1 x 16 ranks",
        ),
        (  # what the shell puts in is not known, and nothing is no batch
            "framework: hf-trainer, gradient_accumulation: 2",
            "train.py --per_device_train_batch_size $MBS --max_seq_length 0",
            "micro 1 x accumulation 2 x 16 ranks",
        ),
    ],
)
def test_arguments_of_run_stand_for_keys_that_train_leaves_open(
    train: str, run: str, batch: str
) -> None:
    made = planned(run, train)
    assert made.other["global_batch"].why == batch
    passed = [check.message for check in made.checks if check.code == "J255"]
    assert not any("leaves" in message for message in passed)


def test_the_length_of_a_sequence_is_planned_as_run_sets_it() -> None:
    train = f"framework: megatron, {LLAMA}, strategy: 3d, tp: 8, micro_batch: 1"
    short, long = (
        planned(f"pretrain_gpt.py --seq-length {length}", train) for length in (2048, 16384)
    )
    assert short.estimate is not None
    assert long.estimate is not None
    assert long.estimate.allocated > short.estimate.allocated
    assert not [check for check in long.checks if check.code == "J255"]


def test_what_run_says_as_it_is_passed_is_no_note() -> None:
    run = "train.py --per_device_train_batch_size 4 --bf16 --fsdp 'full_shard auto_wrap'"
    made = planned(run, "framework: hf-trainer, strategy: fsdp")
    assert not any("also sets" in note.message for note in made.notes)


@pytest.mark.parametrize(
    ("run", "smaller"),
    [
        ("train.py --use_liger_kernel true", True),
        ("train.py --optim adamw_bnb_8bit", True),
        ("train.py --torch_compile", True),
        ("train.py --gradient_checkpointing", True),
        ("train.py --optim galore_adamw", False),  # not known
        ("train.py --use_liger_kernel $LIGER", False),
    ],
)
def test_options_of_the_trainer_are_planned_as_run_sets_them(run: str, smaller: bool) -> None:
    train = f"framework: hf-trainer, {LLAMA}, strategy: zero3"
    made, plain = planned(run, train), planned("train.py", train)
    assert made.estimate is not None
    assert plain.estimate is not None
    assert (made.estimate.allocated < plain.estimate.allocated) == smaller
    assert not [check for check in made.checks if check.code == "J255"]


def test_auto_keeps_the_activation_checkpointing_of_run() -> None:
    train = f"framework: hf-trainer, {LLAMA}, strategy: auto, micro_batch: 4"
    chosen = {
        option: planned(f"train.py{option}", train).other.get("activation_checkpointing")
        for option in ("", " --gradient_checkpointing false", " --gradient_checkpointing")
    }
    assert chosen[" --gradient_checkpointing false"] is None
    assert chosen[" --gradient_checkpointing"] is not None


def test_fsdp_alone_recomputes_since_the_trainer_rejects_both() -> None:
    train = f"framework: hf-trainer, {LLAMA}, strategy: fsdp2"
    for option in ("--gradient_checkpointing", "--activation_checkpointing"):
        made = planned(f"train.py {option} true", train)
        assert made.other["activation_checkpointing"].value == "full"
        assert f"{option}=false" in str(made)


@pytest.mark.parametrize(
    ("option", "noted"),
    [("--auto_find_batch_size true", True), ("--auto_find_batch_size=false", False)],
)
def test_a_batch_that_the_trainer_searches_itself_is_noted(option: str, noted: bool) -> None:
    made = planned(f"train.py {option}", f"framework: hf-trainer, {LLAMA}")
    assert any("auto_find_batch_size" in note.message for note in made.notes) == noted


@pytest.mark.parametrize(
    ("option", "warned"),
    [
        ("--attn_implementation eager", "--attn_implementation eager keeps the attention scores"),
        (
            "--optim adamw_torch_4bit",
            "--optim adamw_torch_4bit is not counted; the plan is for adamw",
        ),
        ("--load_in_4bit", "--load_in_4bit is not counted"),
        ("--use_peft --lora_r 16", "--use_peft is not counted"),
        ("--attn-implementation sdpa --optim sgd --use_peft False", ""),
        ("--optim $OPTIM", ""),
    ],
)
def test_options_that_change_the_memory_uncounted_are_warned_of(option: str, warned: str) -> None:
    made = planned(f"train.py {option}", f"framework: hf-trainer, {LLAMA}, strategy: zero3")
    messages = [note.message for note in made.notes if note.severity == "warning"]
    assert len(messages) == bool(warned)
    assert all(warned in message for message in messages)
