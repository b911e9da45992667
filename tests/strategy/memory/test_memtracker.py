"""The formulas of activations against torch's own count, tensor by tensor, of real models."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest

from jobgen.strategy.memory.activations import Kept, compute_kept
from jobgen.strategy.memory.recipes import RECIPES
from jobgen.strategy.setup import Setup
from jobgen.strategy.shapes import build_model, read
from jobgen.strategy.spec import Batch, Mesh
from tests.products import one_of_each

pytestmark = [
    pytest.mark.slow,
    pytest.mark.train("torch", "transformers"),
]

WITHIN = 0.05
RECOMPUTE = ("none", "selective", "full")
CASES = [
    *(
        (kind, "bf16")
        for kind in ("llama", "gpt2", "gpt_neox", "gemma2", "qwen3", "phi3", "mixtral", "opt")
    ),
    ("llama", "fp32"),
    # the CPU's autocast has no pow in fp32, nor products of experts: not GPT-2, not Mixtral
    *((kind, "autocast") for kind in ("llama", "gpt_neox", "qwen3", "phi3")),
]
_RECIPES = {"bf16": "pure", "fp32": "fp32", "autocast": "autocast"}
WORDS = 16384


def cases(ways: Sequence[str]) -> list[object]:
    """Every model and precision with these ways of recomputing, in turns; all with the first."""
    kept = {(*CASES[0], way) for way in ways}
    kept |= {(*case, ways[number % len(ways)]) for number, case in enumerate(CASES)}
    return one_of_each([(*case, way) for case in CASES for way in ways], kept)


def setup(
    kind: str,
    precision: str,
    recompute: str,
    layers: int = 2,
    vocab: int = 64,
    *,
    drops: bool = False,
) -> Setup:
    """One GPU that trains the same model on as many tokens."""
    from tests.strategy.memory import traced

    arch, doubts = read(traced.config(kind, layers, vocab, drops=drops).to_dict(), kind)
    assert arch is not None
    assert not doubts
    return Setup(
        build_model(arch),
        "ddp",
        Mesh(1, 1),
        Batch(traced.BATCH, 1, 1),
        traced.SEQ,
        RECIPES[_RECIPES[precision]],
        recompute=recompute,  # type: ignore[arg-type]
        hidden_dropout=arch.hidden_dropout,
        attention_dropout=arch.attention_dropout,
    )


def trace(kind: str, precision: str, recompute: str, layers: int, vocab: int = 64) -> Any:
    """What MemTracker counts."""
    from tests.strategy.memory import traced

    return traced.trace(kind, precision, recompute, layers, vocab)


def cast(one: Setup, layers: int) -> float:
    """Bytes of weights that autocast has in 16 bits, of so many layers."""
    if one.recipe.params == one.recipe.compute:
        return 0.0
    return one.recipe.compute * layers * float(one.model.largest)


@pytest.mark.parametrize(("kind", "precision", "recompute"), cases(RECOMPUTE))
def test_a_layer_keeps_what_the_formula_says(kind: str, precision: str, recompute: str) -> None:
    two, three = (trace(kind, precision, recompute, layers).kept for layers in (2, 3))
    asked = setup(kind, precision, recompute)
    weights = cast(asked, 1) if recompute == "none" else 0.0
    assert compute_kept(asked).layer + weights == pytest.approx(three - two, rel=WITHIN)


@pytest.mark.parametrize(("kind", "precision", "recompute"), cases(RECOMPUTE))
def test_the_backward_pass_needs_what_the_formula_says(
    kind: str, precision: str, recompute: str
) -> None:
    asked = setup(kind, precision, recompute)
    said: Kept = compute_kept(asked)
    weights = cast(asked, 2 if recompute == "none" else 1)
    most = 2 * said.layer + max(said.working, said.ending) + weights
    assert most == pytest.approx(trace(kind, precision, recompute, 2).peak, rel=WITHIN)


@pytest.mark.parametrize(
    ("kind", "precision", "recompute"),
    one_of_each(
        product(("llama", "gpt2", "gemma2", "opt"), ("bf16", "fp32"), ("none", "full")),
        kept=[("llama", "fp32", "none"), ("gpt2", "bf16", "full"), ("gemma2", "bf16", "none")],
    ),
)
def test_scores_in_memory_need_what_the_formula_says(
    kind: str, precision: str, recompute: str
) -> None:
    from tests.strategy.memory import traced

    said: Kept = compute_kept(setup(kind, precision, recompute)._replace(flash=False))
    found = traced.trace(kind, precision, recompute, 2, attention="eager")
    most = 2 * said.layer + max(said.working, said.ending)
    assert most == pytest.approx(found.peak, rel=WITHIN)


@pytest.mark.parametrize("flash", [True, False])
@pytest.mark.parametrize(
    ("kind", "precision", "recompute"),
    [("gpt2", "bf16", "none"), ("gpt2", "fp32", "full"), ("opt", "bf16", "none")],
)
def test_dropout_needs_what_the_formula_says(
    kind: str, precision: str, recompute: str, flash: bool
) -> None:
    from tests.strategy.memory import traced

    said = compute_kept(setup(kind, precision, recompute, drops=True)._replace(flash=flash))
    attention = "causal" if flash else "eager"
    two, three = (
        traced.trace(kind, precision, recompute, layers, attention=attention, drops=True)
        for layers in (2, 3)
    )
    assert said.layer == pytest.approx(three.kept - two.kept, rel=0.01)
    most = 2 * said.layer + max(said.working, said.ending)
    assert most == pytest.approx(two.peak, rel=WITHIN)


@pytest.mark.parametrize(("kind", "precision", "recompute"), cases(["none", "full"]))
def test_the_loss_needs_what_the_formula_says(kind: str, precision: str, recompute: str) -> None:
    asked = setup(kind, precision, recompute, vocab=WORDS)
    said = compute_kept(asked if precision != "bf16" else asked._replace(loss="plain"))
    weights = cast(asked, 2 if recompute == "none" else 0)
    most = 2 * said.layer + said.last + said.logits + weights
    found = trace(kind, precision, recompute, 2, WORDS)
    assert most == pytest.approx(found.peak, rel=WITHIN)
