"""The planner's states against the exact ones, which are measured in ``test_states``."""

from __future__ import annotations

import pytest

from jobgen.model.parallel import Parallel
from jobgen.model.train import Train
from jobgen.strategy import ModelSizes, RankLayout, decide
from jobgen.strategy.memory.memory_states import divide_states, list_stages
from jobgen.strategy.memory.recipes import RECIPES
from jobgen.strategy.setup import Setup
from jobgen.strategy.shapes import Architecture, build_model
from jobgen.strategy.sharded_bytes import Unit, compute_states
from jobgen.strategy.spec import Batch

MODEL = build_model(Architecture("small", 4, 256, 8, 2, 32, 688, 4000))
UNITS: tuple[Unit, ...] = (
    *(tuple(t.shape for t in layer.tensors) for layer in MODEL.layers for _ in range(layer.times)),
    tuple(t.shape for t in MODEL.root),
)
RANKS = 4
PADDING = 1e-3
CASES = {
    "ddp": "autocast",
    "fsdp": "autocast",
    "fsdp-grad-op": "autocast",
    "fsdp-no-shard": "autocast",
    "fsdp-hybrid": "autocast",
    "fsdp2": "autocast",
    "zero1": "mixed",
    "zero2": "mixed",
    "zero3": "mixed",
}


@pytest.mark.parametrize(("name", "recipe"), CASES.items())
def test_states_are_the_measured_ones_up_to_padding(name: str, recipe: str) -> None:
    assert MODEL.count > 4e6
    train = Train(strategy=Parallel(type=name), precision="bf16")  # type: ignore[arg-type]
    strategy = decide(train, ModelSizes(), RankLayout(2, RANKS // 2, "none"), launcher="torchrun")
    setup = Setup(MODEL, name, strategy.mesh, Batch(1, 1, RANKS), 128, RECIPES[recipe])
    said, exact = divide_states(setup, list_stages(setup)[0]), compute_states(strategy, UNITS)
    assert said.params == pytest.approx(exact.params, rel=PADDING)
    assert said.master == pytest.approx(exact.master, rel=PADDING)
    assert said.moments == pytest.approx(exact.moments, rel=PADDING)
    # ZeRO-1 has all gradients until the backward pass ends, and its own part after it
    whole = RANKS if name == "zero1" else 1
    assert said.grads == pytest.approx(whole * exact.grads, rel=PADDING)
