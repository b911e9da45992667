"""What the planner assumes of a program, with the memory of the alternative."""

from __future__ import annotations

import pytest

from jobgen.strategy.choice.assumptions import list_assumptions
from jobgen.strategy.memory import estimate
from jobgen.strategy.memory.recipes import RECIPES
from jobgen.strategy.setup import Adapters, Setup
from jobgen.strategy.spec import Batch, Mesh
from tests.strategy.memory.setups import LLAMA, MODELS

PLAIN = Setup(
    MODELS[0],
    "fsdp2",
    Mesh(1, 8),
    Batch(2, 1, 8),
    4096,
    RECIPES["autocast"],
    unsynced=True,
    assumed=("loss", "compiled", "gradient_accumulation"),
)


def names(setup: Setup) -> set[str]:
    """What is assumed."""
    return {each.assumed for each in list_assumptions(setup)}


def test_each_assumption_has_the_change_of_its_alternative() -> None:
    assert LLAMA.vocab > 1e5
    found = {each.alternative: each.change for each in list_assumptions(PLAIN)}
    assert set(found) == {"fused", "compiled", "with it"}
    fused = estimate(PLAIN._replace(loss="fused")).needed - estimate(PLAIN).needed
    assert found["fused"] == fused < 0
    assert found["with it"] > 4 * MODELS[0].count * 0.9  # whole gradients in fp32


def test_the_largest_change_stands_first() -> None:
    changes = [abs(each.change) for each in list_assumptions(PLAIN)]
    assert changes == sorted(changes, reverse=True)


def test_what_the_job_says_is_no_assumption() -> None:
    assert "loss from fp32 logits" in names(PLAIN)
    assert "loss from fp32 logits" not in names(PLAIN._replace(assumed=("compiled",)))


def test_accumulated_gradients_are_assumed_to_stay_whole_where_they_do() -> None:
    several = PLAIN._replace(batch=Batch(2, 8, 8))
    assert "no_sync" in names(several)


def test_gradients_that_the_program_s_options_or_the_framework_reduce_are_no_assumption() -> None:
    several = PLAIN._replace(batch=Batch(2, 8, 8), unsynced=False)
    assert not any("sync" in name for name in names(several))


def test_checkpointing_and_quantization_are_assumed_of_adapters_only() -> None:
    lora = PLAIN._replace(
        strategy="fsdp",
        recompute="full",
        loss="fused",
        adapters=Adapters(8, (), 4),
        recipe=RECIPES["pure"],
    )
    assert names(lora) >= {"non-reentrant checkpointing", "no prepare_model_for_kbit_training"}
    assert names(lora._replace(adapters=None)).isdisjoint(
        {"non-reentrant checkpointing", "no prepare_model_for_kbit_training"}
    )


def test_a_calibration_multiplies_alternatives_too() -> None:
    plain, calibrated = list_assumptions(PLAIN), list_assumptions(PLAIN, 1.3)
    assert [each.alternative for each in calibrated] == [each.alternative for each in plain]
    for once, more in zip(plain, calibrated, strict=True):
        assert more.change == pytest.approx(once.change * 1.3)
        assert more.memory.needed == pytest.approx(once.memory.needed * 1.3)
