"""What tensor and context parallel send within layers, and beside what."""

from __future__ import annotations

import pytest

from jobgen.strategy.setup import Adapters, Setup
from jobgen.strategy.spec import Mesh
from jobgen.strategy.speed.sequence_traffic import (
    gathers_beside,
    get_gathered_bytes,
    list_context,
    list_tensor,
)
from tests.strategy.speed.setups import MIXED, TITAN, setup

BESIDE = TITAN._replace(overlap_tp=True)
NARROW = BESIDE._replace(recipe=MIXED._replace(name="mixed, fp8"))
ROWWISE = BESIDE._replace(recipe=MIXED._replace(name="mixed, fp8 rowwise"))


def list_when(asked: Setup) -> list[tuple[str, str]]:
    return [(one.what, one.when) for one in list_tensor(asked)]


def test_torchs_asynchronous_tp_reduces_gradients_of_inputs_alone() -> None:
    assert list_when(BESIDE) == [
        ("all-gather", "product"),
        ("reduce-scatter", "product"),
        ("all-gather", "recomputed"),
        ("all-gather", "gradient"),
        ("reduce-scatter", "layer"),
    ]
    assert {when for _, when in list_when(TITAN)} == {"layer"}
    whole = [one.times for one in list_tensor(BESIDE._replace(recompute="full"))]
    assert whole == [128, 128, 64, 64]  # two of each of 32 layers, and those forward once more


def test_what_was_kept_whole_is_not_gathered_again_and_nothing_hides_its_gradient() -> None:
    asked = setup("3d", mesh=Mesh(1, 1, tp=8), framework="megatron", sequence_parallel=True)
    again, kept = list_when(asked), list_when(asked._replace(keeps_gathered=True))
    assert again[3:] == [("all-gather", "backward"), ("reduce-scatter", "backward")]
    assert kept == [*again[:3], ("reduce-scatter", "layer")]


def test_operands_with_a_scale_for_each_row_are_gathered_alone_in_16_bits() -> None:
    assert [gathers_beside(one) for one in (BESIDE, NARROW, ROWWISE)] == [True, True, False]
    assert {when for what, when in list_when(ROWWISE) if what == "all-gather"} == {"layer"}
    assert [get_gathered_bytes(one) for one in (BESIDE, NARROW, ROWWISE)] == [2, 1, 2]
    assert gathers_beside(ROWWISE._replace(framework="megatron"))


def test_transformer_engine_gathers_operands_as_they_are_multiplied_unless_adapters_take_them() -> (
    None
):
    engine = NARROW._replace(framework="megatron")
    four = engine._replace(recipe=MIXED._replace(name="mixed, fp4"))
    adapted = engine._replace(adapters=Adapters(8, ()))
    plain = engine._replace(recipe=MIXED)
    asked = (plain, engine, four, adapted, engine._replace(legacy=True))
    assert [get_gathered_bytes(one) for one in asked] == [2, 1, 0.5, 2, 2]
    gathered = [
        [one.payload for one in list_tensor(each) if one.what == "all-gather"]
        for each in (plain, four)
    ]
    assert gathered[1] == [pytest.approx(one / 4) for one in gathered[0]]


def test_8_bit_operands_are_gathered_in_half_the_bytes_and_results_are_not_reduced_so() -> None:
    wide, narrow = (list(list_tensor(one)) for one in (BESIDE, NARROW))
    for one, other in zip(wide, narrow, strict=True):
        share = 0.5 if one.what == "all-gather" else 1
        assert other.payload == pytest.approx(share * one.payload)


def test_compiled_code_waits_for_keys_and_values_at_once() -> None:
    asked = setup("fsdp2", mesh=Mesh(1, 1, cp=4), framework="torchtitan")
    assert [one.when for one in list_context(asked)] == ["start", "ring"]
    assert [one.when for one in list_context(asked._replace(compiled=True))] == ["layer", "layer"]
    other = asked._replace(compiled=True, framework="megatron")
    assert [one.when for one in list_context(other)] == ["ring"]
