"""The published run that is named beside an estimate."""

from __future__ import annotations

import pytest

from jobgen.data import rows as read_data
from jobgen.strategy.choice.nearest import find_nearest, list_measured
from jobgen.strategy.memory.recipes import RECIPES
from jobgen.strategy.setup import Adapters, Setup
from jobgen.strategy.spec import Batch, Mesh
from tests.strategy.memory.setups import MODELS
from tests.strategy.memory.test_accuracy import rows, score

TITAN = Setup(
    MODELS[0], "fsdp2", Mesh(1, 8), Batch(2, 1, 8), 8192, RECIPES["autocast"], "selective"
)


def test_the_runs_are_those_that_the_planner_is_scored_on() -> None:
    scored = score().score_memory(rows())
    assert list(read_data("measured_runs.csv")) == score().list_measured(scored)
    assert len(list_measured()) == len(scored)


def test_a_published_run_is_its_own_neighbour() -> None:
    run = find_nearest(TITAN)
    assert run is not None
    assert (run.model, run.gpus, run.seq, run.micro) == ("Llama-3-8B", 8, 8192, 2)
    assert "torchtitan" in run.source


@pytest.mark.parametrize("strategy", ["fsdp", "fsdp2", "fsdp-grad-op"])
def test_both_kinds_of_fsdp_are_neighbours(strategy: str) -> None:
    assert find_nearest(TITAN._replace(strategy=strategy)) is not None


def test_what_trains_adapters_is_no_neighbour_of_what_trains_all() -> None:
    run = find_nearest(TITAN._replace(adapters=Adapters(8, ()), strategy="ddp", mesh=Mesh(1, 1)))
    assert run is not None
    assert run.trained == "LoRA"


def test_nothing_is_named_where_nothing_is_near() -> None:
    assert find_nearest(TITAN._replace(seq=8, mesh=Mesh(1, 4096))) is None


def test_every_run_has_a_size() -> None:
    assert all(run.gib > 0 and run.params > 1e8 for run in list_measured())
