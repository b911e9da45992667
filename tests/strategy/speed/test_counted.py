"""Measured costs of models of the catalogue, against the planner's formulas for them."""

from __future__ import annotations

from typing import Any

import pytest

from jobgen.strategy.measured_model import read_measured
from jobgen.strategy.speed.compute import compute_head, compute_layer, count_flops
from jobgen.strategy.speed.measured_compute import compute_stages
from tests.strategy.memory.test_memtracker import setup
from tests.strategy.speed.setups import A100

LAYERS, WORDS = 2, 16384
CAUSAL = 7 / 12
"""FlashAttention skips what the mask hides and makes scores twice; PaLM's formula counts twelve
products of a matrix without a mask."""


def sum_flops(costs: dict[str, Any], *kinds: str) -> int:
    """FLOPs of these kinds of operations, forward and backward."""
    rows = [row for both in costs["kinds"] for rows in both for row in rows]
    return sum(flops * times for kind, _, flops, _, _, times in rows if kind in kinds)


@pytest.mark.train("torch", "transformers")
@pytest.mark.parametrize(
    "kind",
    [
        "llama",
        *(
            pytest.param(kind, marks=pytest.mark.exhaustive)
            for kind in ("gpt2", "gpt_neox", "qwen3", "phi3", "opt")
        ),
    ],
)
def test_counted_flops_are_those_of_the_formulas(kind: str) -> None:
    from tests.strategy.memory import traced
    from tests.strategy.speed.counted import count

    costs, known = count(kind, LAYERS, WORDS)
    assert not costs["uncounted"]
    products = sum_flops(costs, "product")
    assert products == known
    one = setup(kind, "bf16", "none", LAYERS, WORDS)
    sizes = one.model.sizes
    looked_up = one.model.count_kinds("position") + (
        0 if sizes.tied else one.model.count_kinds("embedding")
    )
    attention = 12 * LAYERS * sizes.heads * sizes.head_dim * traced.SEQ
    weights = count_flops(one) - attention - 6 * looked_up
    assert products == pytest.approx(weights * traced.TOKENS, rel=0.02)
    assert sum_flops(costs, "attention") == pytest.approx(
        attention * CAUSAL * traced.TOKENS, rel=0.02
    )


@pytest.mark.train("torch", "transformers")
def test_a_measured_llama_takes_as_long_as_the_formulas_say() -> None:
    from tests.strategy.memory import traced
    from tests.strategy.speed.counted import count

    costs, _ = count("llama", LAYERS, WORDS)
    trace = {"mode": "16-bit", "recompute": "none", "costs": costs, "points": []}
    sizes = {"params": 1, "trained": 1, "width": 2, "buffers": 0, "units": []}
    held = {"kept": 0, "forward": 0, "after": 0}
    report = {**sizes, "micro": traced.BATCH, "traces": [{**trace, **held}]}
    one = setup("llama", "bf16", "none", LAYERS, WORDS)
    measured = one._replace(measured=read_measured("llama", report))
    (found,) = compute_stages(measured, A100)
    layer, head = compute_layer(one, A100), compute_head(one, A100)
    expected = LAYERS * (layer.forward + layer.backward) + head.forward + head.backward
    assert found.forward + found.backward == pytest.approx(expected, rel=0.15)
    assert found.calls == pytest.approx(LAYERS * layer.calls + head.calls, rel=0.15)
