"""What ``jobgen plan`` proposes is what the changed job gives."""

from __future__ import annotations

from typing import Any

import pytest

from jobgen.model.train import Lora
from jobgen.strategy import frameworks
from jobgen.strategy.choice.advise import choose_option, is_over_host
from jobgen.strategy.choice.ladder import has_possible_rung
from jobgen.strategy.choice.levers import find_help, find_levers, find_room_to_spare
from jobgen.strategy.choice.offer import Lever, StrategyOption
from jobgen.strategy.choice.savings import list_savings
from jobgen.strategy.choice.setups import Ask
from jobgen.strategy.estimate import GIB
from tests.effort import count_calls
from tests.strategy.choice.asked import H100, ask

LLAMA = "meta-llama/Llama-3.1-8B"
MOE = "Qwen/Qwen3-Next-80B-A3B-Instruct"
BITS = "train.lora.bits: 4"
SYNC = "gradients reduced in every micro-batch"


def choose(asked: Ask, *, auto: bool = False) -> StrategyOption:
    option = choose_option(asked, auto=auto)
    assert option is not None
    return option


def apply_changes(lever: Lever, asked: Ask) -> Ask:
    """The question that the job asks after these changes."""
    train: dict[str, Any] = {}
    for change in lever.changes:
        key, _, value = change.partition(": ")
        number = int(value) if value.isdigit() else value
        if key == "nodes":
            asked = asked._replace(world=asked.world._replace(nodes=int(value)))
        elif key == "train.offload":
            train["offload"] = asked.train.offload.replace(what=value)
        else:
            train[key.removeprefix("train.")] = number
    return asked._replace(train=asked.train.replace(**train), fixed=asked.fixed | train.keys())


@pytest.mark.parametrize("auto", [True, False])
@pytest.mark.parametrize("micro", [8, None])
def test_an_entry_is_what_its_changes_give(auto: bool, micro: int | None) -> None:
    asked = ask(LLAMA, 1, strategy="ddp", framework="hf-trainer", seq_len=8192, micro_batch=micro)
    levers = find_help(choose(asked, auto=auto), asked, auto=auto).levers
    assert len(levers) > 1
    for lever in levers:
        option = choose(apply_changes(lever, asked), auto=auto)
        assert option.memory.needed == pytest.approx(lever.memory), lever.changes
        assert not auto or option.title in lever.note or "auto chooses" not in lever.note


@pytest.mark.parametrize(
    ("batch", "steps"),
    [
        ({"micro_batch": 4, "gradient_accumulation": 4}, 16),
        ({"micro_batch": 4, "gradient_accumulation": 4, "global_batch": 128}, 16),
        ({"micro_batch": 4, "global_batch": 128}, None),
        ({"micro_batch": None}, 8),
    ],
)
def test_a_smaller_micro_batch_keeps_the_global_batch(
    batch: dict[str, int | None], steps: int | None
) -> None:
    asked = ask(LLAMA, 1, strategy="fsdp", framework="hf-trainer", **batch)
    start = choose(asked)
    levers = find_help(start, asked).levers
    smaller = [lever for lever in levers if lever.changes[0] == "train.micro_batch: 1"]
    assert smaller
    for lever in smaller:
        assert (f"train.gradient_accumulation: {steps}" in lever.changes) is (steps is not None)
        assert choose(apply_changes(lever, asked)).setup.batch.total == start.setup.batch.total


def test_one_sample_at_once_cannot_be_fewer() -> None:
    asked = ask(LLAMA, 1, strategy="fsdp2", framework="torch", micro_batch=None, seq_len=65536)
    levers = find_help(choose(asked), asked).levers
    assert not any("micro_batch" in change for lever in levers for change in lever.changes)


def test_two_changes_that_fit_together_keep_the_strategy_of_the_job() -> None:
    batch = {"micro_batch": 4, "gradient_accumulation": 4}
    asked = ask(LLAMA, 1, strategy="fsdp", framework="hf-trainer", **batch)
    fitting = [lever for lever in find_help(choose(asked), asked).levers if lever.verdict == "fits"]
    assert any("train.loss: fused" in lever.changes for lever in fitting)
    own = [lever for lever in fitting if not any("strategy" in c for c in lever.changes)]
    assert own
    assert fitting == sorted(fitting, key=lambda lever: lever.slower)


@pytest.mark.parametrize(
    ("framework", "place"),
    [
        ("hf-trainer", "--accelerator_config"),
        ("accelerate", "GradientAccumulationPlugin(sync_each_batch=True)"),
        ("torch", "set_requires_gradient_sync"),
    ],
)
def test_gradients_reduced_in_every_micro_batch_are_a_change(framework: str, place: str) -> None:
    asked = ask(LLAMA, 1, strategy="fsdp2", framework=framework, gradient_accumulation=4)
    (lever,) = [each for each in find_levers(choose(asked), asked) if SYNC in each.changes]
    assert lever.saves > 2**30
    assert place in lever.note
    assert not lever.possible, "no --set of jobgen does it"
    alone = asked._replace(train=asked.train.replace(gradient_accumulation=1))
    assert not any(SYNC in each.changes for each in find_levers(choose(alone), alone))


def test_the_words_of_the_program_set_when_gradients_are_reduced() -> None:
    asked = ask(LLAMA, 1, strategy="fsdp", framework="hf-trainer", gradient_accumulation=4)
    (lever,) = [each for each in find_levers(choose(asked), asked) if SYNC in each.changes]
    words = ("--accelerator_config", lever.note.partition(" ")[2].strip("'"))
    option = choose(asked._replace(run_args=words))
    assert option.memory.needed == pytest.approx(lever.memory)


@pytest.mark.parametrize("auto", [True, False])
def test_fewer_bits_of_frozen_weights_help_where_the_host_is_short_too(auto: bool) -> None:
    words: dict[str, Any] = {"framework": "hf-trainer", "lora": {"rank": 32}, "micro_batch": 1}
    large = ask("meta-llama/Llama-3.1-70B", 1, gpu="L40S-48GB", ranks=4, **words)
    asked = large._replace(machine=large.machine._replace(node_memory=128 * GIB))
    if not auto:
        small = asked.train.replace(strategy="fsdp2", activation_checkpointing="full")
        asked = asked._replace(train=small)
    start = choose(asked, auto=auto)
    assert is_over_host(start.memory, asked) == auto
    (lever,) = (each for each in find_levers(start, asked, auto=auto) if BITS in each.changes)
    assert lever.verdict == "fits"
    assert "load_in_4bit of BitsAndBytesConfig in the program" in lever.note
    fewer = asked.train.replace(lora=Lora(rank=32, bits=4))
    there = choose(asked._replace(train=fewer), auto=auto)
    assert there.memory.needed == pytest.approx(lever.memory)


@pytest.mark.parametrize("framework", ["megatron", "torchtitan"])
def test_bits_of_bitsandbytes_are_not_proposed_to_who_has_it_not(framework: str) -> None:
    asked = ask(LLAMA, 1, strategy="ddp", framework=framework, lora={"rank": 16})
    changes = [*list_savings(choose(asked), asked, auto=False)]
    assert changes
    assert not any("lora" in change for change in changes)


@pytest.mark.parametrize("name", ["fsdp2", "zero3"])
def test_what_cannot_shard_its_weights_is_helped_by_another_strategy_or_4_bits(name: str) -> None:
    words: dict[str, Any] = {"framework": "hf-trainer", "lora": {"bits": 8}, "strategy": name}
    asked = ask(LLAMA, **words, micro_batch=1, seq_len=8192)
    levers = find_help(choose(asked), asked).levers
    assert levers
    able = {"train.strategy: ddp", "train.strategy: zero1", BITS}
    assert all(able & {*lever.changes} for lever in levers)
    assert all(lever.verdict == "fits" or BITS in lever.changes for lever in levers)


def test_the_fastest_that_keeps_the_global_batch_is_an_entry() -> None:
    words = {"framework": "hf-trainer", "seq_len": 8192, "micro_batch": 4}
    asked = ask(LLAMA, 4, gpu=H100, gradient_accumulation=8, **words)
    start = choose(asked, auto=True)
    assert start.verdict == "tight"
    first, *others = find_room_to_spare(start, asked, auto=True)
    assert first.changes == (
        "train.micro_batch: 1",
        "train.gradient_accumulation: 32",
        "train.loss: fused",
    )
    assert all(other.slower > first.slower + 0.05 for other in others)
    option = choose(apply_changes(first, asked), auto=True)
    assert option.setup.batch.total == start.setup.batch.total
    assert option.step is not None
    assert first.rate == pytest.approx(option.step.work / option.step.seconds)


def test_of_smaller_micro_batches_the_largest_and_the_fastest_are_entries() -> None:
    words = {"framework": "hf-trainer", "seq_len": 2048, "micro_batch": None}
    asked = ask(MOE, 4, gpu=H100, global_batch=512, **words)
    start = choose(asked, auto=True)
    assert start.verdict == "tight"
    levers = find_room_to_spare(start, asked, auto=True)
    alone = [lever for lever in levers if lever.changes[0].startswith("train.micro_batch: ")]
    alone = [lever for lever in alone if len(lever.changes) == 1]
    assert [lever.changes[0][-1] for lever in alone] == ["4", "8"]
    assert alone[0].rate > 1.3 * alone[1].rate


def test_smaller_micro_batches_of_many_samples_are_searched_with_few_calls() -> None:
    words = {"framework": "hf-trainer", "seq_len": 2048, "micro_batch": None}
    asked = ask(MOE, 4, gpu=H100, global_batch=8192, **words)
    start = choose(asked, auto=True)
    assert start.verdict == "no"
    assert count_calls(lambda: find_help(start, asked, auto=True)) < 1_200_000


@pytest.mark.parametrize("kind", ["none", "selective"])
@pytest.mark.parametrize("framework", frameworks.MODULES)
def test_with_auto_no_entry_leads_to_a_refusal(framework: str, kind: str) -> None:
    launcher = "accelerate" if framework == "accelerate" else "torchrun"
    keys = {"framework": framework, "seq_len": 8192, "activation_checkpointing": kind}
    asked = ask("Qwen/Qwen3-8B", gpu="A100-SXM4-40GB", **keys)._replace(launcher=launcher)
    if not has_possible_rung(asked):
        return  # the job itself is refused
    for lever in find_help(choose(asked, auto=True), asked, auto=True).levers:
        assert has_possible_rung(apply_changes(lever, asked)), lever.changes


@pytest.mark.parametrize(("option", "other"), [("--fsdp", "zero"), ("--deepspeed", "fsdp")])
def test_no_strategy_is_advised_that_an_option_of_run_excludes(option: str, other: str) -> None:
    asked = ask("Qwen/Qwen3-8B", gpu="A100-SXM4-40GB", framework="hf-trainer", seq_len=8192)
    asked = asked._replace(run_args=("train.py", option, "full_shard"))
    changes = {
        change for lever in find_help(choose(asked), asked).levers for change in lever.changes
    }
    assert any("train.strategy" in change for change in changes)
    assert not any(f"train.strategy: {other}" in change for change in changes)
