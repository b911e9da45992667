"""What ``auto`` may choose is what the framework can be configured for."""

from __future__ import annotations

import json

import pytest

from jobgen import strategy
from jobgen.model.train import Train
from jobgen.strategy import frameworks
from jobgen.strategy.batch import ConfigBatch
from jobgen.strategy.choice.advise import choose_first, estimate_option, find_least
from jobgen.strategy.choice.ladder import Rung, list_rungs
from jobgen.strategy.choice.levers import find_levers
from jobgen.strategy.choice.setups import Ask
from tests.effort import count_calls
from tests.strategy.choice.asked import H100, ask

LLAMA = "meta-llama/Llama-3.1-8B"


def list_faults(question: Ask, train: Train) -> tuple[strategy.TrainDiagnostic, ...]:
    """What the framework refuses of it."""
    decided = strategy.decide(train, question.sizes, question.world, launcher=question.launcher)
    world = question.world
    request = frameworks.FrameworkRequest(decided, world.nodes, world.ranks_per_node)
    return frameworks.configure(request).faults


@pytest.mark.parametrize("framework", frameworks.MODULES)
@pytest.mark.parametrize("length", [2048, 8192])
@pytest.mark.parametrize("name", [LLAMA, "meta-llama/Llama-3.1-70B"])
def test_auto_takes_what_the_framework_can_do(framework: str, length: int, name: str) -> None:
    launcher = "accelerate" if framework == "accelerate" else "torchrun"
    question = ask(name, framework=framework, seq_len=length)._replace(launcher=launcher)
    best = choose_first(question) or find_least(question)
    assert best is not None
    assert list_faults(question, best[0].train) == ()


MIXTRAL = "mistralai/Mixtral-8x7B-v0.1"


@pytest.mark.parametrize("framework", frameworks.MODULES)
def test_auto_divides_experts_where_the_framework_can(framework: str) -> None:
    launcher = "accelerate" if framework == "accelerate" else "torchrun"
    question = ask(MIXTRAL, gpu=H100, framework=framework)._replace(launcher=launcher)
    rungs = list(list_rungs(question))
    able = framework in {"megatron", "torchtitan"}
    sizes = {rung.train.ep for rung in rungs}
    assert sizes == ({1, 2, 4, 8} if able else {1})
    assert len({rung.name for rung in rungs}) == len(rungs)
    levels = [rung.level for rung in rungs]
    assert levels == sorted(levels)
    best = choose_first(question) or find_least(question)
    assert best is not None
    assert list_faults(question, best[0].train) == ()


def test_auto_divides_no_experts_of_a_dense_model_nor_where_the_job_does() -> None:
    dense = ask(LLAMA, gpu=H100, framework="megatron")
    assert {rung.train.ep for rung in list_rungs(dense)} == {1}
    own = ask(MIXTRAL, gpu=H100, framework="megatron", ep=4)
    assert {rung.train.ep for rung in list_rungs(own) if rung.level} == {4}


def test_what_does_not_fit_with_whole_experts_fits_with_divided_ones() -> None:
    question = ask("deepseek-ai/DeepSeek-V3", 32, gpu=H100, framework="torchtitan")
    best = choose_first(question)
    assert best is not None
    rung, option = best
    assert (rung.train.ep, option.verdict) == (32, "fits")
    assert "ep 32" in option.title
    whole = question._replace(fixed=question.fixed | {"ep"})
    found = choose_first(whole)
    assert found is None or found[0].train.ep == 1
    few, many = (
        count_calls(
            lambda n=n: choose_first(
                ask("deepseek-ai/DeepSeek-V3", n, gpu=H100, framework="megatron")
            )
        )
        for n in (256, 2048)
    )
    assert many < 1.5 * few


def test_what_no_choice_can_mend_is_left_to_the_framework_to_report() -> None:
    question = ask(LLAMA, framework="deepspeed", micro_batch=None)
    rungs = list(list_rungs(question))
    assert rungs
    assert all(list_faults(question, rung.train) for rung in rungs)


def test_a_batch_that_does_not_divide_asks_for_no_axis_that_the_framework_lacks() -> None:
    question = ask("openai-community/gpt2", framework="hf-trainer", global_batch=100)
    assert not list(list_rungs(question))


def test_auto_takes_what_the_users_own_deepspeed_configuration_says() -> None:
    config = {
        "train_micro_batch_size_per_gpu": 4,
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
        "bf16": {"enabled": True},
    }
    question = ask(LLAMA, framework="deepspeed", micro_batch=None)
    train = question.train.replace(config="ds.json")
    question = question._replace(train=train, config=json.dumps(config).encode())
    rungs = list(list_rungs(question))
    assert {rung.train.activation_checkpointing for rung in rungs} == {"none", "full"}
    assert {(r.train.strategy.type, r.train.offload.what) for r in rungs} == {
        ("zero2", "optimizer")
    }
    batch = ConfigBatch(4, 1, "ds.json:1")
    question = question._replace(config_batch=batch)
    levers = find_levers(estimate_option(rungs[0], question), question)
    assert not any("micro_batch" in lever.change for lever in levers)


@pytest.mark.parametrize("framework", frameworks.MODULES)
def test_no_change_is_advised_that_the_framework_refuses(framework: str) -> None:
    launcher = "accelerate" if framework == "accelerate" else "torchrun"
    question = ask(LLAMA, strategy="zero1" if framework == "deepspeed" else "ddp", seq_len=8192)
    train = question.train.replace(framework=framework)
    question = question._replace(train=train, launcher=launcher)
    start = estimate_option(Rung(0, "own", train), question)
    words = {lever.change for lever in find_levers(start, question)}
    lacking = framework in {"megatron", "torchtitan"}
    assert ("train.optimizer: adamw8bit" in words) is not lacking
    fused = "train.loss: fused (Liger or cut cross entropy in the program)"
    chunked = "train.loss: chunked (ChunkedLossWrapper in the function of --config)"
    liger = "train.loss: fused (--use_liger_kernel=true, needs liger-kernel)"
    losses = {"megatron": set(), "torchtitan": {chunked}, "hf-trainer": {liger}}
    losses = losses.get(framework, {fused})
    assert {word for word in words if "train.loss" in word} == losses
    for kind in ("selective", "full"):
        if f"train.activation_checkpointing: {kind}" in words:
            assert list_faults(question, train.replace(activation_checkpointing=kind)) == ()


def test_what_the_trainer_is_about_to_remove_is_not_proposed() -> None:
    names = {
        framework: {
            rung.train.strategy.type for rung in list_rungs(ask(LLAMA, framework=framework))
        }
        for framework in ("hf-trainer", "torch")
    }
    old = {"fsdp", "fsdp-grad-op", "fsdp-hybrid"}
    assert not names["hf-trainer"] & old
    assert old <= names["torch"]
    assert "fsdp2" in names["hf-trainer"]


@pytest.mark.parametrize(("bits", "sharded"), [(4, True), (8, False), (16, True)])
def test_auto_does_not_shard_weights_in_8_bits(bits: int, sharded: bool) -> None:
    question = ask(LLAMA, framework="hf-trainer", lora={"bits": bits})
    names = {rung.train.strategy.type for rung in list_rungs(question)}
    assert ({"fsdp2", "zero3"} <= names) is sharded
    assert bool(names & {"fsdp2", "zero3"}) is sharded
    assert {"ddp", "zero2"} <= names
    other = list_rungs(question._replace(other_quantizer=True))
    assert {"fsdp2", "zero3"} <= {rung.train.strategy.type for rung in other}
