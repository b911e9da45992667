"""How much a layer and its hooks ask of the host: counted without a GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from jobgen.strategy.memory.recipes import RECIPES
from jobgen.strategy.setup import Setup
from jobgen.strategy.shapes.architecture import Architecture, Experts
from jobgen.strategy.shapes.count import build_model
from jobgen.strategy.spec import Batch, Mesh
from jobgen.strategy.speed.attention import count_score_passes
from jobgen.strategy.speed.elementwise import count_single_operations
from jobgen.strategy.speed.kernels import count_added, count_hooks, count_kernels

LLAMA = Architecture("llama", 2, 64, 4, 2, 16, 128, 64)
GPT = LLAMA._replace(kv_heads=4, ffn=256, gated=False, positions=32, layer_norm=True, rotary="")
GPT2 = GPT._replace(activation="eager", fused_qkv=True, qkv_bias=True, out_bias=True, mlp_bias=True)
GPT2 = GPT2._replace(transposed=True)


def build(shape: Architecture, strategy: str = "ddp") -> Setup:
    """One rank that trains it."""
    return Setup(build_model(shape), strategy, Mesh(1, 1), Batch(1, 1, 1), 32, RECIPES["mixed"])


def count(shape: Architecture, framework: str) -> int:
    """What the planner counts of a layer."""
    setup = build(shape)._replace(framework=framework)
    return count_kernels(setup, setup.model.layers[0].tensors)


@cache
def run(script: str, *words: str) -> dict[str, Any]:
    """What a script beside this file counts."""
    command = [sys.executable, str(Path(__file__).with_name(script)), *words]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


@pytest.mark.train("torch", "transformers", "megatron")
def test_megatrons_layer_starts_as_many_of_a_llamas_kernels_as_torch_dispatches() -> None:
    found = run("dispatched.py", "1")
    expected = count(LLAMA, "torch") * found["megatron"] / found["llama"]
    assert count(GPT, "megatron") == pytest.approx(expected, abs=1)


@pytest.mark.train("torch", "transformers")
def test_scores_are_read_and_written_as_often_as_torch_does() -> None:
    sloped = LLAMA._replace(rotary="")
    expected = {
        "plain": build(LLAMA)._replace(recipe=RECIPES["fp32"]),
        "cast": build(LLAMA),
        "autocast": build(LLAMA)._replace(recipe=RECIPES["autocast"]),
        "sloped": build(sloped),
    }
    found = {name: list(count_score_passes(setup)) for name, setup in expected.items()}
    assert found == run("scored.py")["scores"]


@pytest.mark.train("torch", "transformers")
@pytest.mark.parametrize("recipe", ["fp32", "bf16", "autocast"])
@pytest.mark.parametrize("rate", [0.0, 0.1])
def test_gpt2_moves_as_much_and_starts_as_many_kernels_as_torch_does(
    recipe: str, rate: float
) -> None:
    found = run("scored.py")["gpt2"][f"{recipe} {rate}"]
    drops = rate > 0
    setup = build(GPT2)._replace(
        recipe=RECIPES["pure" if recipe == "bf16" else recipe],
        flash=False,
        hidden_dropout=drops,
        attention_dropout=drops,
    )
    tensors = setup.model.layers[0].tensors
    assert list(count_score_passes(setup)) == found["scores"]
    assert count_kernels(setup, tensors) == found["kernels"]
    masks = setup.tokens * 2 * GPT2.hidden * (2 * setup.recipe.compute + 1) * drops
    moved = [(each - masks) / setup.tokens for each in count_single_operations(setup, tensors)]
    assert moved == [each * GPT2.ffn for each in found["inner"]]


@pytest.mark.train("torch", "transformers", "megatron")
@pytest.mark.parametrize("ranks", [1, 4])
def test_megatrons_router_starts_as_many_as_torch_dispatches(ranks: int) -> None:
    found = run("dispatched.py", str(ranks))
    few, many = (found[f"megatron, {local} experts"] for local in (4, 8))
    exchanges = 4 if ranks > 1 else 0
    # beside the experts, each of which is started whole there; grouped, they share an activation
    routed = few - (many - few) - exchanges + 1
    for local in (4, 8):
        shape = GPT._replace(experts=Experts(local * ranks, 2, 128))
        setup = build(shape)._replace(framework="megatron", mesh=Mesh(1, ranks, ep=ranks))
        expected = (routed + 2 * local) * count(LLAMA, "torch") / found["llama"] + 5 * exchanges
        kernels = count_kernels(setup, setup.model.layers[0].tensors)
        assert kernels == pytest.approx(expected, abs=1)


SHARE = 36 / 47
"""Of a kernel's time, for an operation."""


def test_cuda_graphs_start_all_but_the_experts() -> None:
    sparse = GPT._replace(experts=Experts(16, 2, 128))
    biased = GPT._replace(experts=Experts(16, 2, 128, bias=True))
    # beside them, tokens are sorted by expert and back in six operations
    for shape, left in ((GPT, 0), (sparse, 2 * 4 + 6), (biased, 4 * 4 + 6)):
        setup = build(shape)._replace(framework="megatron", mesh=Mesh(1, 4, ep=4), graphed=True)
        exchanged = 20 if left else 0
        assert count_kernels(setup, setup.model.layers[0].tensors) == int(left * SHARE) + exchanged
        alone = setup._replace(graphs_attention=False)
        expected = int((left + 19) * SHARE) + exchanged
        assert count_kernels(alone, alone.model.layers[0].tensors) == expected


def test_a_graph_of_the_step_starts_experts_and_sums_of_gradients() -> None:
    setup = build(GPT._replace(experts=Experts(16, 2, 128)))
    setup = setup._replace(framework="megatron", mesh=Mesh(1, 4, ep=4), graphed=True)
    setup = setup._replace(graphs_step=True)
    assert count_kernels(setup, setup.model.layers[0].tensors) == 0
    assert count_added(setup, setup.model.layers[0].tensors) == 0


def test_each_expert_of_megatron_has_a_gradient_to_add() -> None:
    def count_sums(ranks: int) -> float:
        setup = build(GPT._replace(experts=Experts(16, 2, 128)))
        setup = setup._replace(framework="megatron", mesh=Mesh(1, ranks, ep=ranks))
        return count_added(setup, setup.model.layers[0].tensors)

    assert count_sums(1) - count_sums(4) == 2 * (16 - 4)
    assert count_added(build(GPT), build(GPT).model.layers[0].tensors) == 0


@pytest.mark.exhaustive
@pytest.mark.train("torch", "transformers", "deepspeed")
@pytest.mark.parametrize(("few", "many"), [("1", "3"), ("4", "12")])
def test_hooks_of_zero3_take_as_long_as_the_kernels_that_are_counted_for_them(
    few: str, many: str
) -> None:
    found = run("hooked.py", few, many)
    matrices = 7  # of a Llama's layer
    each = count_hooks(build(LLAMA, "zero3")) / matrices
    expected = count(LLAMA, "torch") * found["module"] / found["layer"]
    assert each == pytest.approx(expected, rel=0.2)


@pytest.mark.parametrize("strategy", ["ddp", "zero1", "zero2", "fsdp", "fsdp2"])
def test_only_zero3_has_hooks_around_modules(strategy: str) -> None:
    assert count_hooks(build(LLAMA, strategy)) == 0
