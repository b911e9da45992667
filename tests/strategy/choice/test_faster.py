"""The fastest option that fits, beside the simplest."""

from __future__ import annotations

from typing import Any

import pytest

from jobgen.model.train import Offload
from jobgen.strategy.batch import ConfigBatch
from jobgen.strategy.choice.advise import advise, choose_option, estimate_option
from jobgen.strategy.choice.faster import add_faster, find_assumed_rates, find_faster
from jobgen.strategy.choice.ladder import list_rungs
from jobgen.strategy.choice.offer import Advice
from jobgen.strategy.choice.setups import Ask
from tests.strategy.choice.asked import H100, ask

SLOW = 25e9 / 8 / 8
"""Bytes per second: a GPU's eighth of 25 Gb/s."""


def on_slow_network(framework: str, **train: Any) -> Ask:
    """Llama 8B on two nodes that Ethernet joins."""
    words = {"framework": framework, "gradient_accumulation": 4, **train}
    asked = ask("meta-llama/Llama-3.1-8B", **words)
    return asked._replace(machine=asked.machine._replace(network=SLOW))


def answer(asked: Ask, *, auto: bool = True) -> Advice:
    """The advice, with what is faster."""
    return add_faster(advise(asked, auto=auto), asked, auto=auto)


@pytest.mark.parametrize("framework", ["torch", "hf-trainer", "torchtitan", "megatron"])
def test_the_fastest_that_fits_is_what_its_changes_give(framework: str) -> None:
    asked = on_slow_network(framework)
    found = answer(asked)
    chosen, faster = found.chosen, found.faster
    assert chosen is not None
    assert faster is not None
    assert chosen.step is not None
    changes = dict(map(_read_change, faster.changes))
    there = asked._replace(train=asked.train.replace(**changes))
    # where auto would choose another, the strategy is named
    named = choose_option(there, auto="strategy" not in changes)
    assert named is not None
    assert named.verdict == "fits"
    assert named.step is not None
    assert named.step.rate == pytest.approx((1 + faster.gain) * chosen.step.rate)
    assert faster.gain > 0.1
    assert [one.name for one in found.options].count(faster.option.name) == 1


def _read_change(change: str) -> tuple[str, Any]:
    key, _, value = change.removeprefix("train.").partition(": ")
    if key == "offload":
        return key, Offload(what=value)
    return key, int(value) if value.isdigit() else value


@pytest.mark.parametrize("framework", ["torch", "hf-trainer"])
def test_programs_that_do_not_divide_the_model_are_not_to_be_rewritten(framework: str) -> None:
    faster = answer(on_slow_network(framework)).faster
    assert faster is not None
    assert {change.partition(":")[0] for change in faster.changes}.isdisjoint(
        {"train.tp", "train.pp", "train.ep"}
    )


def test_nothing_faster_that_fits_is_left_out() -> None:
    asked = on_slow_network("hf-trainer")
    faster = answer(asked).faster
    assert faster is not None
    assert faster.option.step is not None
    for rung in list_rungs(asked):
        option = estimate_option(rung, asked)
        if option.verdict == "fits" and option.step:
            assert option.step.rate <= faster.option.step.rate


def test_what_is_not_clearly_faster_or_only_tight_is_not_named() -> None:
    asked = ask("meta-llama/Llama-3.1-8B", framework="torch")
    assert answer(asked).faster is None
    shown = advise(asked, auto=True).chosen
    assert shown is not None
    assert find_faster(shown._replace(verdict="tight"), asked, {}, auto=True) is None
    assert find_faster(shown._replace(step=None), asked, {}, auto=True) is None


def test_a_named_strategy_has_only_the_keys_that_differ() -> None:
    own = on_slow_network("hf-trainer", strategy="zero3", activation_checkpointing="full")
    faster = answer(own, auto=False).faster
    assert faster is not None
    assert faster.changes == ("train.micro_batch: 4", "train.gradient_accumulation: 1")
    # a file of the user's sets the batch
    fixed = own._replace(config_batch=ConfigBatch(1, 4, "ds_config.json:3"))
    faster = answer(fixed, auto=False).faster
    assert faster is not None
    assert faster.changes == ("train.strategy: zero1",)


def test_a_quantized_model_that_is_prepared_otherwise_is_not_compared() -> None:
    words = {"framework": "hf-trainer", "lora": {"bits": 4}, "micro_batch": 8, "seq_len": 2048}
    asked = ask("meta-llama/Llama-3.1-8B", 1, **words)
    shown = advise(asked, auto=True).chosen
    assert shown is not None
    assert shown.setup.adapters is not None
    assert shown.setup.adapters.prepared, "zero3 and fsdp2 leave 16 bits where this has fp32"
    faster = find_faster(shown, asked, {}, auto=True)
    assert faster is None or faster.option.setup.adapters == shown.setup.adapters


@pytest.mark.parametrize(
    "batch",
    [
        {"micro_batch": None},
        {"micro_batch": 8},
        {"micro_batch": 1, "gradient_accumulation": 8},
        {"micro_batch": None, "global_batch": 256},
    ],
)
def test_another_micro_batch_with_as_many_samples_in_a_step_is_tried(batch: dict[str, Any]) -> None:
    words = {"framework": "hf-trainer", "seq_len": 2048, **batch}
    asked = ask("Qwen/Qwen3-Next-80B-A3B-Instruct", 4, gpu=H100, **words)
    found = answer(asked)
    assert found.chosen is not None
    assert found.faster is not None
    assert found.faster.gain > 1, "8 samples at once need offload, one wastes the GPU"
    assert any(change.startswith("train.micro_batch: ") for change in found.faster.changes)
    assert not any("strategy" in change for change in found.faster.changes), "auto chooses it"
    faster = found.faster.option
    assert faster.setup.batch.total == found.chosen.setup.batch.total == 256
    assert faster.name.endswith(f"+micro {faster.setup.batch.micro}")


def test_an_assumption_that_costs_much_speed_names_that_of_its_alternative() -> None:
    asked = ask("Qwen/Qwen3.5-9B", 2, gpu="A100-SXM4-40GB", framework="hf-trainer", seq_len=8192)
    shown = choose_option(asked, auto=True)
    assert shown is not None
    assert shown.step is not None
    rate = find_assumed_rates(shown, asked, auto=True)["fused"]
    fused = choose_option(asked._replace(train=asked.train.replace(loss="fused")), auto=True)
    assert fused is not None
    assert fused.step is not None
    assert rate.rate == fused.step.work / fused.step.seconds
    assert rate.rate > 1.1 * shown.step.work / shown.step.seconds
    assert rate.title == fused.title
    written = asked._replace(written=frozenset({"loss", "compiled"}))
    known = choose_option(written, auto=True)
    assert known is not None
    assert not find_assumed_rates(known, written, auto=True)
