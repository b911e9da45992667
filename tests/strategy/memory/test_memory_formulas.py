"""What ``plan --why`` says of each component: a formula that comes out, and a source."""

from __future__ import annotations

import pytest
from hypothesis import given

from jobgen.strategy.estimate import GIB
from jobgen.strategy.memory import estimate
from jobgen.strategy.memory.formula_terms import Term
from jobgen.strategy.memory.memory_formulas import explain_memory, explain_parts
from jobgen.strategy.memory.recipes import RECIPES
from jobgen.strategy.setup import Setup
from jobgen.strategy.spec import Batch, Mesh
from tests.strategy.memory.setups import LLAMA, MODELS, setups

EIGHT = Setup(MODELS[0], "zero3", Mesh(1, 8), Batch(2, 1, 8), 2048, RECIPES["mixed"])


@given(setups())
def test_every_component_has_a_formula_that_comes_out(setup: Setup) -> None:
    memory = estimate(setup)
    found = explain_parts(setup, memory)
    for component in memory.components:
        if component.bytes:
            assert found[component.name].bytes == pytest.approx(component.bytes), component.name
        else:
            assert component.name not in found


@given(setups())
def test_every_component_has_one_line_and_a_source(setup: Setup) -> None:
    memory = estimate(setup)
    said = explain_memory(setup, memory)
    for before, after in zip(memory.components, said.components, strict=True):
        assert after._replace(formula="", source="") == before
        assert bool(after.formula) == bool(after.source) == bool(before.bytes)
        assert "\n" not in after.formula
    assert said.nvidia_smi == memory.nvidia_smi


def test_a_formula_has_its_inputs_as_numbers() -> None:
    said = {c.name: c for c in explain_memory(EIGHT, estimate(EIGHT)).components}
    assert LLAMA.name == "Llama-3.1-8B"
    assert said["moments"].formula == (
        "optimizer moments, mixed: 8 B/parameter x 8.03e9 parameters / 8 ranks"
    )
    assert said["moments"].bytes == 8 * MODELS[0].count / 8
    assert "1910.02054" in said["moments"].source
    assert said["activations"].formula.startswith(
        "tensors saved by autograd in each layer: 32 layers x 4096 tokens x "
    )


@given(setups())
def test_what_own_runs_correct_is_a_factor_of_the_same_formula(setup: Setup) -> None:
    memory = estimate(setup)
    pairs = zip(
        explain_memory(setup, memory).components,
        explain_memory(setup, memory.scale(1.25), 1.25).components,
        strict=True,
    )
    for plain, corrected in pairs:
        assert corrected.bytes == 1.25 * plain.bytes
        head, colon, terms = plain.formula.partition(": ")
        told = f"{head}: ({terms}) x 1.25 measured / estimated, in your runs" if colon else ""
        assert corrected.formula == told


def test_terms_multiply_and_divide() -> None:
    term = Term(((2.0, "B"), (3.0 * GIB, "elements")), ((4.0, "ranks"),))
    assert term.bytes == 1.5 * GIB
    assert str(term) == "2 B x 3.221e9 elements / 4 ranks"
    assert str(term._replace(divisors=((1.0, "ranks"),))) == "2 B x 3.221e9 elements"
