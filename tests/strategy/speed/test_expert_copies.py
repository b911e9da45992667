"""Copies of tokens that experts receive, against all choices of experts there are."""

from __future__ import annotations

from itertools import combinations

import pytest

from jobgen.strategy.shapes.architecture import Experts
from jobgen.strategy.shapes.count import build_model
from jobgen.strategy.spec import Mesh
from jobgen.strategy.speed.collectives import RankGroup
from jobgen.strategy.speed.elementwise import (
    count_elementwise,
    count_expert_activation,
    count_moved,
)
from jobgen.strategy.speed.expert_copies import (
    Copies,
    count_copies,
    count_reached,
    count_sorted_rows,
)
from tests.strategy.speed.setups import MIXED, SPARSE, setup

EXPERTS = SPARSE.sizes.experts
assert EXPERTS is not None


@pytest.mark.parametrize("parts", [1, 2, 4, 8])
@pytest.mark.parametrize("active", [1, 2, 3, 8])
def test_parts_are_reached_as_often_as_in_all_choices(parts: int, active: int) -> None:
    choices = list(combinations(range(8), active))
    each = 8 // parts
    reached = sum(len({expert // each for expert in choice}) for choice in choices)
    found = count_reached(Experts(8, active, 1), parts)
    assert found == pytest.approx(reached / len(choices))


def test_an_all_to_all_sends_a_copy_for_each_expert_and_deepep_one_for_each_rank_and_node() -> None:
    plain, fused = setup(model=SPARSE), setup(model=SPARSE, fused_dispatch=True)
    within, across = RankGroup(4, 4), RankGroup(4, 2)
    for ranks in (within, across):
        assert count_copies(plain, EXPERTS, ranks) == Copies(2, 0)
    reached = 4 * (1 - 15 / 28)
    assert count_copies(fused, EXPERTS, within) == pytest.approx((reached, 0))
    assert count_copies(fused, EXPERTS, across) == pytest.approx((reached, 2 * (1 - 6 / 28)))


def test_tokens_are_sorted_once_more_after_an_all_to_all() -> None:
    alone, spread = (setup(model=SPARSE, mesh=Mesh(1, 8, ep=ep)) for ep in (1, 4))
    assert count_sorted_rows(alone, EXPERTS) == 2 * (2 + 1)
    assert count_sorted_rows(spread, EXPERTS) == 2 * (2 + 1) + 4 * 2
    assert count_sorted_rows(spread._replace(gathers_tokens=True), EXPERTS) == 5 * 2 + 4
    fused = spread._replace(fused_dispatch=True)
    assert count_sorted_rows(fused, EXPERTS) == pytest.approx(2 * (2 + 4 * (1 - 15 / 28)))


def test_narrow_products_of_megatrons_experts_need_padded_copies() -> None:
    narrow = MIXED._replace(name="mixed, fp8")
    for framework, padded in (("megatron", 4 * 2), ("torchtitan", 0)):
        wide = setup(model=SPARSE, mesh=Mesh(1, 8, ep=4), framework=framework)
        found = count_sorted_rows(wide._replace(recipe=narrow), EXPERTS)
        assert found - count_sorted_rows(wide, EXPERTS) == padded, framework
    fused = [wide._replace(fused_dispatch=True, recipe=each) for each in (MIXED, narrow)]
    assert count_sorted_rows(fused[0], EXPERTS) == count_sorted_rows(fused[1], EXPERTS)


def test_automodel_compiles_the_gate_of_its_experts() -> None:
    plain, compiled = (
        count_elementwise(asked, asked.model.layers[0].tensors)
        for framework in ("torch", "automodel")
        for asked in [setup(model=SPARSE, framework=framework)]
    )
    assert plain - compiled == 2 * 2 * (2 * 128) * 256


def test_megatron_adds_the_biases_of_experts_in_operations_of_their_own() -> None:
    assert EXPERTS is not None
    biased = build_model(SPARSE.sizes._replace(experts=EXPERTS._replace(bias=True)))
    for framework, more in (("megatron", 32 * 2 * 64 * 256), ("torch", 0)):
        plain, added = (
            count_moved(asked, asked.model.layers[0].tensors)
            for model in (SPARSE, biased)
            for asked in [setup(model=model, framework=framework)]
        )
        assert added - plain == more, framework


def test_megatron_clamps_what_experts_activate_in_operations_of_their_own() -> None:
    clamped = build_model(SPARSE.sizes._replace(clamped_gate=True))
    for framework, more in (("megatron", 23 * 2 * 128 * 256), ("torch", 0)):
        plain, added = (
            count_moved(asked, asked.model.layers[0].tensors)
            for model in (SPARSE, clamped)
            for asked in [setup(model=model, framework=framework)]
        )
        assert added - plain == more, framework


def test_megatron_rotates_and_scales_in_single_operations() -> None:
    scaled = build_model(SPARSE.sizes._replace(scaled_rotation=True))
    for framework, more in (("megatron", 8 * 2 * (4 + 4) * 16 * 256), ("torch", 0)):
        plain, added = (
            count_elementwise(asked, asked.model.layers[0].tensors)
            for model in (SPARSE, scaled)
            for asked in [setup(model=model, framework=framework)]
        )
        assert added - plain == more, framework


def test_fused_experts_add_biases_and_activate_within_their_products() -> None:
    assert EXPERTS is not None
    shape = SPARSE.sizes._replace(clamped_gate=True, experts=EXPERTS._replace(bias=True))
    asked = setup(model=build_model(shape), framework="megatron", fused_experts=True)
    plain = setup(model=SPARSE, framework="megatron")
    tensors = asked.model.layers[0].tensors
    assert count_moved(asked, tensors) == count_moved(plain, tensors)
    assert count_expert_activation(asked, tensors) == 0
    saved = count_elementwise(plain, tensors) - count_elementwise(asked, tensors)
    assert saved == count_expert_activation(plain, tensors) > 0
