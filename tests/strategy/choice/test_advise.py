"""The simplest strategy that fits, and what is said of the others."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobgen import strategy
from jobgen.strategy.choice.advise import (
    advise,
    choose_first,
    choose_option,
    estimate_option,
    find_least,
)
from jobgen.strategy.choice.ladder import Rung, change_nodes, list_rungs
from jobgen.strategy.choice.least_room import find_fewest_nodes
from jobgen.strategy.choice.levers import (
    find_help,
    find_levers,
    find_room_to_spare,
)
from jobgen.strategy.choice.offer import StrategyOption
from jobgen.strategy.choice.scale import scale
from jobgen.strategy.estimate import GIB
from tests.effort import count_calls
from tests.strategy.choice.asked import H100, ask

MODELS = ("openai-community/gpt2", "meta-llama/Llama-3.2-1B", "meta-llama/Llama-3.1-8B")


def test_a_small_model_is_trained_by_ddp() -> None:
    found = choose_first(ask("openai-community/gpt2", micro_batch=4, seq_len=1024))
    assert found is not None
    assert (found[0].name, found[1].verdict) == ("ddp", "fits")


def test_what_does_not_fit_whole_is_sharded() -> None:
    asked = ask("meta-llama/Llama-3.1-8B", activation_checkpointing="full")
    found = choose_first(asked)
    assert found is not None
    rung, chosen = found
    assert rung.train.strategy.type in {"fsdp-grad-op", "fsdp2"}
    assert chosen.verdict == "fits"
    ddp = estimate_option(Rung(0, "ddp", asked.train), asked)
    assert ddp.verdict == "no"
    # 16 bytes of each of 8.03e9 parameters, and a cast copy
    assert ddp.memory.nvidia_smi > 16 * 8.03e9


@pytest.mark.parametrize("framework", ["torch", "deepspeed", "megatron", "hf-trainer"])
def test_every_rung_is_one_that_the_framework_can_run(framework: str) -> None:
    asked = ask("meta-llama/Llama-3.1-8B", framework=framework)
    found = list(list_rungs(asked))
    assert len({rung.name for rung in found}) == len(found)
    for rung in found:
        faults = strategy.check_train(rung.train, asked.sizes, asked.world, launcher=asked.launcher)
        assert not list(faults), rung.name


def test_what_the_job_writes_is_not_varied() -> None:
    asked = ask("meta-llama/Llama-3.1-8B", activation_checkpointing="none", offload="none")
    said = {(r.train.activation_checkpointing, r.train.offload.what) for r in list_rungs(asked)}
    assert said == {("none", "none")}


def test_the_reasons_go_up_the_ladder_to_the_chosen_one() -> None:
    found = advise(ask("meta-llama/Llama-3.1-8B", seq_len=8192), auto=True)
    assert found.chosen is not None
    assert found.chosen.chosen
    assert "simplest strategy that fits" in found.why[-1]
    assert all("does not fit" in line or "is tight" in line for line in found.why[:-1])
    assert [one.name for one in found.options if one.chosen] == [found.chosen.name]


def test_the_table_has_the_own_strategy_with_checkpointing_and_the_simplest_that_fits() -> None:
    asked = ask("meta-llama/Llama-3.2-1B", strategy="ddp", micro_batch=8, seq_len=4096)
    names = [option.name for option in advise(asked, auto=False).options]
    assert {"ddp", "ddp+full", "fsdp-grad-op+full"} <= {*names}
    best = choose_first(asked)
    assert best is not None
    assert best[0].name in names


def test_what_was_not_tried_is_named() -> None:
    mixture = ask("mistralai/Mixtral-8x7B-v0.1", nodes=4, framework="megatron")
    assert advise(mixture, auto=True).untried == ("pp", "offload")
    small = ask("openai-community/gpt2", micro_batch=4, seq_len=1024)
    assert advise(small, auto=True).untried == ("activation_checkpointing", "tp", "pp", "offload")
    huge = ask("meta-llama/Llama-3.1-405B", framework="torch")
    assert advise(huge, auto=True).untried == ()


def test_what_the_job_names_is_taken_even_where_it_does_not_fit() -> None:
    found = advise(ask("meta-llama/Llama-3.1-70B"), auto=False)
    assert found.chosen is not None
    assert (found.chosen.name, found.chosen.verdict) == ("ddp", "no")
    assert any(one.verdict != "no" for one in found.options)


def test_a_speed_is_told_only_of_what_runs() -> None:
    found = advise(ask("meta-llama/Llama-3.1-8B"), auto=True)
    assert {(one.verdict != "no", one.step is not None) for one in found.options} <= {
        (True, True),
        (False, False),
    }


def test_levers_say_what_each_change_gives() -> None:
    asked = ask("meta-llama/Llama-3.1-8B", 1, strategy="fsdp2", micro_batch=4, seq_len=8192)
    start = estimate_option(Rung(0, "fsdp2", asked.train), asked)
    assert start.verdict == "no"
    found = {lever.change: lever for lever in find_levers(start, asked)}
    full = found["train.activation_checkpointing: full"]
    assert full.memory == pytest.approx(start.memory.needed - full.saves)
    assert 0.15 < full.slower < 0.45, "about a third: the forward pass once more"
    least = found["train.micro_batch: 1, train.gradient_accumulation: 4"]
    assert least.saves > 0
    assert found["nodes: 2"].saves > 0
    fit = [lever.fits for lever in find_levers(start, asked)]
    assert fit == sorted(fit, reverse=True)


def test_changes_that_are_enough_only_together_are_one_lever() -> None:
    asked = ask("meta-llama/Llama-3.1-70B", 2, seq_len=2048)
    start = estimate_option(Rung(0, "ddp", asked.train), asked)
    first = find_help(start, asked).levers[0]
    assert first.changes == (
        "train.strategy: fsdp2",
        "train.activation_checkpointing: full",
        "train.offload: both",
    )
    assert first.verdict == "fits"
    alone = find_help(start, change_nodes(asked, 1)).levers[0]
    assert alone.changes[-1:] == ("nodes: 2",)
    auto = find_help(start, change_nodes(asked, 1), auto=True).levers[0]
    assert auto.changes == ("nodes: 2",)
    assert auto.note.startswith("auto chooses FSDP2, full activation checkpointing")


def test_a_smaller_batch_is_combined_with_what_fits_beside_it() -> None:
    name = "meta-llama/Llama-3.1-8B"
    asked = ask(name, 2, gpu=H100, micro_batch=8, framework="hf-trainer")
    start = estimate_option(Rung(0, "ddp", asked.train), asked)
    first = find_help(start, asked).levers[0]
    assert (first.changes[0], first.verdict) == ("train.micro_batch: 1", "fits")
    assert first.changes[1] == "train.gradient_accumulation: 8"
    assert first.changes[2].startswith("train.strategy: zero")
    auto = find_help(start, asked, auto=True).levers[0]
    assert auto.changes == ("train.micro_batch: 1", "train.gradient_accumulation: 8")
    # on such GPUs nothing fits with eight samples, on any number of nodes
    small = ask(name, 2, gpu="A10G-24GB", micro_batch=8, framework="hf-trainer")
    start = estimate_option(Rung(0, "ddp", small.train), small)
    found = find_help(start, small)
    assert found.levers[0].changes[0] == "train.micro_batch: 1"
    assert found.smallest_by.endswith(", micro_batch 1")


def test_a_change_that_is_enough_alone_is_joined_by_others_only_to_be_quicker() -> None:
    asked = ask("meta-llama/Llama-3.1-8B", 1, strategy="fsdp2", micro_batch=2, seq_len=8192)
    start = estimate_option(Rung(0, "fsdp2", asked.train), asked)
    first, *others = [lever for lever in find_help(start, asked).levers if lever.fits]
    assert first.changes == ("train.activation_checkpointing: selective", "train.loss: fused")
    alone = others[0]
    assert (alone.changes, alone.verdict) == (("train.activation_checkpointing: full",), "fits")
    assert first.slower < alone.slower - 0.05


def test_a_tight_option_is_told_another_strategy_where_no_single_change_makes_it_fit() -> None:
    asked = ask("meta-llama/Llama-3.1-8B", 1, strategy="fsdp2", seq_len=8192)
    for kind in ("none", "full"):
        train = asked.train.replace(activation_checkpointing=kind)
        start = estimate_option(Rung(0, "fsdp2", train), asked._replace(train=train))
        levers = find_room_to_spare(start._replace(verdict="tight"), asked._replace(train=train))
        assert levers
        assert {lever.verdict for lever in levers} == {"fits"}


def test_idle_gpus_of_the_nodes_are_proposed_before_more_nodes() -> None:
    asked = ask("meta-llama/Llama-3.1-8B", 1, ranks=2, strategy="fsdp2", offload="none")
    asked = asked._replace(spare_gpus=6)
    start = estimate_option(Rung(0, "fsdp2", asked.train), asked)
    assert start.verdict == "no"
    found = find_help(start, asked)
    more = [(lever.change, lever.needs) for lever in found.levers if lever.needs]
    assert more == [("gpus_per_node: 4", "GPUs"), ("nodes: 2", "nodes")]
    busy = find_help(start, asked._replace(spare_gpus=0))
    assert not [lever for lever in busy.levers if lever.needs == "GPUs"]


@pytest.mark.parametrize("seq_len", [4096, 8192])
def test_changes_that_need_no_more_gpus_come_first(seq_len: int) -> None:
    asked = ask("meta-llama/Llama-3.1-8B", 1, ranks=2, strategy="fsdp2", seq_len=seq_len)
    asked = asked._replace(spare_gpus=6)
    start = estimate_option(Rung(0, "fsdp2", asked.train), asked)
    levers = [lever for lever in find_help(start, asked).levers if lever.fits]
    assert len({lever.needs for lever in levers}) > 1
    for verdict in ("fits", "tight"):
        same = [lever for lever in levers if lever.verdict == verdict]
        quick = [lever for lever in same if lever.slower <= 1]
        assert same[: len(quick)] == quick, "a step that takes twice as long costs more than GPUs"
        places = [("", "GPUs", "nodes").index(lever.needs) for lever in quick]
        assert places == sorted(places)


def test_idle_gpus_are_proposed_before_changes_that_make_a_step_much_longer() -> None:
    asked = ask("Qwen/Qwen2.5-7B", 1, ranks=2, micro_batch=2)._replace(spare_gpus=6)
    start = estimate_option(Rung(0, "ddp", asked.train), asked)
    first, *others = find_help(start, asked).levers
    assert first.fits
    assert (first.needs, first.slower <= 1, first.changes[-1]) == ("GPUs", True, "gpus_per_node: 4")
    assert [lever.needs for lever in others if lever.fits and lever.slower > 1] == [""]


@pytest.mark.parametrize("auto", [True, False])
def test_idle_gpus_are_taken_before_nodes_where_nothing_fits_without(auto: bool) -> None:
    asked = ask("meta-llama/Llama-3.1-70B", 1, ranks=2, strategy="ddp", offload="none")
    asked = asked._replace(spare_gpus=6, machine=asked.machine._replace(nodes=64))
    start = find_least(asked)
    assert start is not None
    found = find_help(start[1], asked, auto=auto)
    assert "gpus_per_node: 8" in found.levers[0].changes
    assert found.smallest_by.startswith("8 GPUs each, ")
    assert found.levers[0].changes[-1] == f"nodes: {found.smallest_nodes}"
    few = find_help(start[1], asked._replace(spare_gpus=0), auto=auto)
    assert (found.smallest_nodes, few.smallest_nodes) == (3, 9)


def test_nodes_that_the_cluster_lacks_are_no_help() -> None:
    asked = ask("meta-llama/Llama-3.1-8B", 1, strategy="fsdp2", micro_batch=4, seq_len=8192)
    start = estimate_option(Rung(0, "fsdp2", asked.train), asked)
    there = asked._replace(machine=asked.machine._replace(nodes=1))
    assert "nodes: 2" in {lever.change for lever in find_levers(start, asked)}
    assert "nodes: 2" not in {lever.change for lever in find_levers(start, there)}


def test_a_note_says_by_what_it_is_tight() -> None:
    asked = ask("meta-llama/Llama-3.2-1B", strategy="fsdp2")
    whole = estimate_option(Rung(0, "fsdp2", asked.train), asked).memory.nvidia_smi
    machine = asked.machine._replace(memory=whole / 0.9)
    found = estimate_option(Rung(0, "fsdp2", asked.train), asked._replace(machine=machine))
    room = "leaves 21 % free, but up to 21.6 GiB may be needed"
    assert (found.verdict, found.note) == ("tight", room)


def test_what_the_job_sets_stands_in_every_row_once() -> None:
    asked = ask("meta-llama/Llama-3.1-8B", strategy="ddp", activation_checkpointing="full")
    names = [option.name for option in advise(asked, auto=False).options]
    assert len(names) == len(set(names))
    assert "ddp+full" in names
    assert "ddp" not in names
    asked = ask("meta-llama/Llama-3.1-8B", strategy="fsdp2", tp=2)
    titles = [option.title for option in advise(asked, auto=True).options]
    assert len(titles) == len(set(titles))


@pytest.mark.parametrize(
    ("name", "label"), [("ddp", "16-bit copies"), ("fsdp2", "gathered"), ("zero3", "gathered")]
)
def test_what_gathers_nothing_does_not_say_so(name: str, label: str) -> None:
    asked = ask("meta-llama/Llama-3.1-8B", strategy=name)
    found = estimate_option(Rung(0, name, asked.train), asked)
    assert label in {part.title for part in found.memory.components}


def test_what_lacks_host_memory_is_not_told_to_save_gpu_memory() -> None:
    train: dict[str, Any] = {"strategy": "zero3", "offload": "both", "seq_len": 1024}
    asked = ask("meta-llama/Llama-3.1-70B", 1, **train)
    start = estimate_option(Rung(0, "zero3", asked.train), asked)
    assert asked.machine.node_memory == 1e12
    assert start.memory.host > 1e12
    assert start.memory.judge(asked.machine.memory) != "no", "the GPU alone would do"
    assert start.verdict == "no"
    assert re.fullmatch(r"needs \d+ of 931 GiB of host memory per node", start.note)
    assert {lever.change for lever in find_levers(start, asked)} <= {"nodes: 2"}


@settings(max_examples=8)
@given(name=st.sampled_from(MODELS[1:]), seq=st.sampled_from([2048, 8192, 32768]))
def test_the_smallest_number_of_nodes_really_is(name: str, seq: int) -> None:
    asked = ask(name, 1, seq_len=seq, activation_checkpointing="full", offload="none", ranks=1)
    found = find_fewest_nodes(asked, most=64)
    count = found[0] if found else None
    fitting = [n for n in range(1, (count or 12) + 1) if choose_first(change_nodes(asked, n))]
    assert fitting == ([count] if count else [])


def test_a_batch_that_does_not_come_out_even_is_no_option() -> None:
    asked = ask("openai-community/gpt2", seq_len=1024, global_batch=48, tp=1, pp=1)
    assert find_fewest_nodes(asked) == (1, "DDP")
    rows = scale(asked, (1, 2, 3, 4), auto=True)
    assert [row.nodes for row in rows] == [1, 2, 3], "48 is no multiple of 32 ranks"


def test_more_nodes_give_more_and_the_first_is_the_measure() -> None:
    rows = scale(ask("meta-llama/Llama-3.2-1B"), (1, 2, 4), auto=True)
    assert rows[0].efficiency == 1.0
    assert rows[0].rate < rows[1].rate < rows[2].rate


def test_what_needs_least_is_found_where_nothing_fits() -> None:
    asked = ask("meta-llama/Llama-3.1-405B", 1, offload="none")
    assert choose_first(asked) is None
    found = find_least(asked)
    assert found is not None
    assert found[1].memory.needed == min(
        estimate_option(rung, asked).memory.needed for rung in list_rungs(asked)
    )


@pytest.mark.parametrize("auto", [True, False])
@pytest.mark.parametrize("model", [*MODELS, "meta-llama/Llama-3.1-405B"])
def test_the_option_of_a_comparison_is_the_first_of_the_whole_answer(
    model: str, auto: bool
) -> None:
    asked = ask(model, 1, seq_len=1024)
    first = advise(asked, auto=auto).first_option
    assert first is not None
    assert choose_option(asked, auto=auto) == first._replace(chosen=False)


def test_a_search_over_thousands_of_gpus_takes_less_than_a_second() -> None:
    asked = ask("meta-llama/Llama-3.1-405B", 2048, gpu=H100, framework="megatron", seq_len=8192)
    every: list[StrategyOption] = []
    calls = count_calls(
        lambda: every.extend(estimate_option(rung, asked) for rung in list_rungs(asked))
    )
    assert calls < 500_000
    assert len(every) > 30
    assert any(one.verdict == "fits" for one in every)


@pytest.mark.parametrize(
    ("model", "framework", "assumed"),
    [
        ("Qwen/Qwen3-30B-A3B", "hf-trainer", True),
        ("Qwen/Qwen3-30B-A3B", "megatron", False),
        ("meta-llama/Llama-3.1-8B", "hf-trainer", False),
    ],
)
def test_the_version_of_transformers_is_assumed_where_experts_depend_on_it(
    model: str, framework: str, assumed: bool
) -> None:
    advice = advise(ask(model, framework=framework), auto=True)
    assert any("transformers 5" in doubt for doubt in advice.doubts) is assumed


def test_where_the_memory_of_the_host_is_short_the_reason_says_so() -> None:
    asked = ask("meta-llama/Llama-3.1-70B", 1, gpu="L40S-48GB", ranks=4, framework="hf-trainer")
    short = asked._replace(machine=asked.machine._replace(node_memory=128 * GIB))
    offloaded = [line for line in advise(short, auto=True).why if "offloaded to CPU" in line]
    assert offloaded
    for line in offloaded:
        assert re.search(r": \d+\.\d GiB per GPU, but needs \d+ of 128 GiB of host memory", line)
