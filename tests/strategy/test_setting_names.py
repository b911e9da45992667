"""What programs call a setting of ``train``."""

from __future__ import annotations

import pytest

from jobgen.strategy.setting_names import (
    FRAMEWORKS,
    can_set,
    locate_settings,
    name_batch_option,
    name_setting,
)


@pytest.mark.parametrize(
    ("framework", "key", "value", "name"),
    [
        ("hf-trainer", "micro_batch", "1", "--per_device_train_batch_size 1"),
        ("hf-trainer", "activation_checkpointing", "full", "--gradient_checkpointing=true"),
        ("hf-trainer", "strategy", "zero3", "--deepspeed=FILE"),
        ("hf-trainer", "timeout", "2h", "--ddp_timeout=7200"),
        (
            "hf-trainer",
            "strategy.find_unused_parameters",
            "true",
            "--ddp_find_unused_parameters=true",
        ),
        ("hf-trainer", "gradient_clipping", "1.0", "--max_grad_norm=1.0"),
        ("torchtitan", "micro_batch", "1", "--training.local_batch_size 1"),
        ("torchtitan", "activation_checkpointing", "full", "activation-checkpoint:full"),
        ("megatron", "micro_batch", "2", "--micro-batch-size 2"),
        (
            "megatron",
            "activation_checkpointing",
            "full",
            "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
        ),
        ("deepspeed", "micro_batch", "1", "train_micro_batch_size_per_gpu: 1"),
        ("deepspeed", "strategy", "zero3", "zero_optimization.stage: 3"),
        ("axolotl", "micro_batch", "1", "micro_batch_size: 1"),
        ("axolotl", "activation_checkpointing", "full", "gradient_checkpointing: true"),
        ("megatron", "strategy", "zero3", ""),
        ("torch", "micro_batch", "1", ""),
        ("", "micro_batch", "1", ""),
    ],
)
def test_a_setting_has_the_name_that_the_framework_reads(
    framework: str, key: str, value: str, name: str
) -> None:
    assert name_setting(framework, key, value) == name


def test_a_setting_of_a_file_is_located_there() -> None:
    located = {name for name in FRAMEWORKS if locate_settings(name)}
    assert located == {"deepspeed", "axolotl"}


def test_a_strategy_that_a_framework_does_not_have_cannot_be_set() -> None:
    assert not can_set("megatron", "strategy", "zero3")
    assert can_set("hf-trainer", "strategy", "zero3")
    assert can_set("", "strategy", "zero3")
    assert can_set("megatron", "micro_batch", "1")


@pytest.mark.parametrize(
    ("framework", "name"),
    [
        ("hf-trainer", "--gradient_accumulation_steps"),
        ("torchtitan", "--training.global_batch_size"),
        ("megatron", "--global-batch-size"),
        ("deepspeed", "gradient_accumulation_steps"),
        ("", ""),
    ],
)
def test_a_batch_is_kept_by_accumulation_else_by_its_size(framework: str, name: str) -> None:
    assert name_batch_option(framework) == name
