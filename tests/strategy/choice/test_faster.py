"""The fastest option that fits, beside the simplest."""

from __future__ import annotations

from typing import Any

import pytest

from jobgen.model.train import Offload
from jobgen.strategy.choice.advise import advise, estimate_option
from jobgen.strategy.choice.faster import add_faster, find_faster
from jobgen.strategy.choice.ladder import list_rungs, make_rung
from jobgen.strategy.choice.offer import Advice
from jobgen.strategy.choice.setups import Ask
from tests.strategy.choice.asked import ask

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
    train = asked.train.replace(**dict(map(_read_change, faster.changes)))
    named = estimate_option(make_rung(0, train), asked)
    assert named.verdict == "fits"
    assert named.step is not None
    assert named.step.rate == pytest.approx((1 + faster.gain) * chosen.step.rate)
    assert faster.gain > 0.1
    assert faster.changes[0].startswith("train.strategy: "), "auto would choose another"
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
