"""Measured costs of models of the catalogue, against the planner's formulas for them."""

from __future__ import annotations

from typing import Any

import pytest

from jobgen.strategy.speed.compute import count_flops
from tests.strategy.memory.test_memtracker import setup

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
