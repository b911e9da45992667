"""Layers that mix tokens without attention against torch's own count, tensor by tensor, of models
of transformers whose kernels are stand-ins that keep what the packages' kernels keep."""

from __future__ import annotations

import pytest

from jobgen.strategy.memory.activations import compute_kept
from jobgen.strategy.memory.recipes import RECIPES
from jobgen.strategy.setup import Setup
from jobgen.strategy.shapes import build_model, read
from jobgen.strategy.spec import Batch, Mesh
from tests.products import one_of_each

pytestmark = [
    pytest.mark.slow,
    pytest.mark.train("torch", "transformers"),
    pytest.mark.filterwarnings("ignore:Module is None"),  # of MemTracker: a norm's is gone by then
]

WITHIN = 0.05
LINEAR, FULL = "linear_attention", "full_attention"
CASES = [
    ("qwen3_5_text", LINEAR),
    ("qwen3_5_text", FULL),
    ("qwen3_next", LINEAR),
    ("kimi_linear", LINEAR),
    ("lfm2", "conv"),
    ("bamba", LINEAR),
    ("granitemoehybrid", LINEAR),
    ("falcon_h1", ""),
    ("nemotron_h", LINEAR),
    ("nemotron_h", FULL),
    ("nemotron_h", "mlp"),
]
WAYS = [(*case, way) for case in CASES for way in ("none", "selective", "full")]
WAYS.remove(("nemotron_h", FULL, "full"))  # attention alone, whose gradients are not counted
KEPT = {(*case, ("none", "selective")[number % 2]) for number, case in enumerate(CASES)}
"""What make test runs: every kind of layer, in turns with all kept and with some."""


# not of experts, for which the CPU has products in 16 bits alone
WIDE = [(*case, way) for case in CASES for way in ("fp32", "autocast") if case[0] != "qwen3_next"]
WIDE.remove(("falcon_h1", "", "autocast"))  # whose scales make fp32 of what is cast


def build_setup(kind: str, part: str, recompute: str, recipe: str = "pure") -> Setup:
    """One GPU that trains the same model on as many tokens."""
    from tests.strategy.memory import traced

    arch, doubts = read(traced.config(kind, 2, 64, part=part).to_dict(), kind)
    assert arch is not None
    assert not doubts
    return Setup(
        build_model(arch),
        "ddp",
        Mesh(1, 1),
        Batch(traced.BATCH, 1, 1),
        traced.SEQ,
        RECIPES[recipe],
        recompute=recompute,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(("kind", "part", "recompute"), one_of_each(WAYS, KEPT))
def test_a_mixer_keeps_and_needs_what_the_formula_says(
    kind: str, part: str, recompute: str
) -> None:
    from tests.strategy.memory import mixer_kernels, traced

    with mixer_kernels.install_kernels(kind.removesuffix("_text")):
        two, three = (traced.trace(kind, "bf16", recompute, layers, part=part) for layers in (2, 3))
    kept = compute_kept(build_setup(kind, part, recompute))
    assert kept.layer == pytest.approx(three.kept - two.kept, rel=WITHIN)
    peak = 2 * kept.layer + max(kept.working, kept.ending)
    assert peak > (1 - WITHIN) * two.peak


@pytest.mark.parametrize(
    ("kind", "part", "precision"),
    one_of_each(WIDE, WIDE[::3]),
)
def test_a_mixer_keeps_what_the_formula_says_in_other_types(
    kind: str, part: str, precision: str
) -> None:
    from tests.strategy.memory import mixer_kernels, traced

    with mixer_kernels.install_kernels(kind.removesuffix("_text")):
        two, three = (
            traced.trace(kind, precision, "none", layers, part=part).kept for layers in (2, 3)
        )
    asked = build_setup(kind, part, "none", precision)
    weights = asked.recipe.compute * asked.model.largest if precision == "autocast" else 0
    assert compute_kept(asked).layer + weights == pytest.approx(three - two, rel=WITHIN)
