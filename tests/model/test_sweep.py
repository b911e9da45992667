"""Sweeps: which values their elements have."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.model.form import Refusal
from jobgen.model.sweep import Sweep
from jobgen.wording import join_pairs


def names(**keys: Any) -> list[str]:
    return [join_pairs(element) for element in Sweep(**keys).list_elements()]


def refuse(**keys: Any) -> str:
    with pytest.raises(Refusal) as caught:
        Sweep(**keys)
    return str(caught.value.faults[0].message)


def test_a_grid_has_all_combinations_the_last_name_first() -> None:
    found = names(grid={"LR": ["1e-5", "3e-5"], "SEED": [0, 1]})
    assert found == ["LR=1e-5,SEED=0", "LR=1e-5,SEED=1", "LR=3e-5,SEED=0", "LR=3e-5,SEED=1"]


def test_zip_takes_the_values_side_by_side() -> None:
    assert names(zip={"LR": ["1e-5", "3e-5"], "WARMUP": [100, 500]}) == [
        "LR=1e-5,WARMUP=100",
        "LR=3e-5,WARMUP=500",
    ]


def test_a_list_has_an_element_for_each_mapping() -> None:
    assert names(list=[{"LR": "1e-5", "TIED": True}, {"LR": "2e-5", "TIED": False}]) == [
        "LR=1e-5,TIED=true",
        "LR=2e-5,TIED=false",
    ]


RANDOM = {
    "LR": {"log": [1e-5, 1e-3]},
    "DROPOUT": {"uniform": [0, 0.3]},
    "LAYERS": {"int": [2, 12]},
    "OPTIMIZER": ["adamw", "lion"],
}


@given(st.integers(0, 1 << 62))
def test_random_values_lie_in_their_ranges_and_follow_from_the_seed(seed: int) -> None:
    sweep = Sweep(random={"samples": 20, "seed": seed, "values": RANDOM})
    elements = sweep.list_elements()
    assert elements == sweep.list_elements()
    assert len(elements) == 20
    for element in elements:
        assert 1e-5 <= float(element["LR"]) <= 1e-3
        assert 0 <= float(element["DROPOUT"]) <= 0.3
        assert int(element["LAYERS"]) in range(2, 13)
        assert element["OPTIMIZER"] in {"adamw", "lion"}


def test_the_values_of_a_seed_stay_what_they_are() -> None:
    assert names(random={"samples": 2, "seed": 7, "values": RANDOM}) == [
        "LR=0.000196791,DROPOUT=0.132831,LAYERS=10,OPTIMIZER=adamw",
        "LR=0.00040842,DROPOUT=0.0736872,LAYERS=7,OPTIMIZER=lion",
    ]


def test_its_indexes_are_those_of_an_array() -> None:
    assert Sweep(grid={"A": [1, 2, 3]}).format_indexes() == "0-2"
    assert Sweep(grid={"A": [1, 2, 3]}, max_parallel=2).format_indexes() == "0-2%2"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, "has no values"),
        ({"grid": {"A": [1]}, "zip": {"A": [1]}}, "has grid and zip"),
        ({"zip": {"A": [1, 2], "B": [1]}}, "the lists of zip differ in length"),
        ({"list": [{"A": 1}, {"B": 1}]}, "the elements of list do not name the same variables"),
        ({"grid": {"A": ["a b"]}}, "'a b' cannot be a value of a sweep"),
        ({"grid": {"A": ["$(id)"]}}, "cannot be a value of a sweep"),
        ({"random": {"samples": 1, "values": {"A": {"log": [0, 1]}}}}, "log needs two ends"),
        ({"random": {"samples": 1, "values": {"A": {"int": [1.5, 3]}}}}, "int needs two ends"),
        ({"random": {"samples": 1, "values": {"A": {"normal": [0, 1]}}}}, "expected values or"),
    ],
)
def test_what_is_no_sweep_is_refused(keys: dict[str, Any], message: str) -> None:
    assert message in refuse(**keys)


def test_too_many_combinations_are_refused_before_they_are_made() -> None:
    many = list(range(1000))
    assert refuse(grid={"A": many, "B": many, "C": many}) == "1,000,000,000 elements are too many"
