"""The arguments of training programs: each is one that its framework has."""

from __future__ import annotations

import dataclasses
import inspect
import json
from pathlib import Path

import pytest

from jobgen.data import deepspeed_keys, run_arguments
from jobgen.model.train import Train

FACTS = Path(__file__).parents[1] / "facts/megatron/arguments-core-0.16.1.json"


def names(framework: str, source: str) -> set[str]:
    rows = run_arguments()
    found = {r.name for r in rows if r.framework == framework and r.source.startswith(source)}
    assert found
    return found


def test_every_row_is_of_a_key_of_train_and_of_values_that_it_takes() -> None:
    for row in run_arguments():
        assert row.source
        assert row.key in Train.keys or row.is_file
        for values in row.values.values():
            for value in values:
                word = {"true": True, "false": False}.get(value, value)
                Train.read({row.key: word})


def test_each_name_stands_once_for_each_key_of_a_framework() -> None:
    found = [(row.framework, row.name.replace("_", "-"), row.key) for row in run_arguments()]
    assert len(found) == len(set(found))


def test_distinct_names_mean_the_same_in_every_framework() -> None:
    keys: dict[str, set[str]] = {}
    for row in run_arguments():
        if row.distinct and not row.is_file:
            keys.setdefault(row.name.replace("_", "-"), set()).add(row.key)
    assert {name: found for name, found in keys.items() if len(found) > 1} == {}


def test_megatrons_are_in_its_list_of_arguments() -> None:
    rows = json.loads(FACTS.read_text())["arguments"]
    known = {name.removeprefix("--") for row in rows for name in row["names"]}
    assert names("megatron", "Megatron-LM") - known == set()


def test_deepspeeds_are_in_its_configuration() -> None:
    assert names("ds_config", "DeepSpeed") - set(deepspeed_keys()) == set()


@pytest.mark.train
def test_the_trainers_are_fields_of_its_arguments() -> None:
    transformers = pytest.importorskip("transformers")
    known = {field.name for field in dataclasses.fields(transformers.TrainingArguments)}
    assert names("hf-trainer", "transformers 5.23 training_args.py") - known == set()


@pytest.mark.train
def test_torchtitans_are_fields_of_its_sections() -> None:
    configs = pytest.importorskip("torchtitan.config.configs")
    sections = {
        "training": configs.TrainingConfig,
        "parallelism": configs.ParallelismConfig,
        "compile": configs.CompileConfig,
    }
    known = {
        f"{name}.{field.name}"
        for name, section in sections.items()
        for field in dataclasses.fields(section)
    }
    assert names("torchtitan", "torchtitan") - known == set()


@pytest.mark.train
def test_lightnings_are_parameters_of_its_trainer() -> None:
    lightning = pytest.importorskip("lightning.pytorch")
    known = {f"trainer.{name}" for name in inspect.signature(lightning.Trainer).parameters}
    assert names("lightning", "lightning 2.6 pytorch") - known == set()
    registered = set(lightning.strategies.StrategyRegistry.keys())
    (row,) = [row for row in run_arguments() if row.name == "trainer.strategy"]
    assert set(row.values) - registered == set()
