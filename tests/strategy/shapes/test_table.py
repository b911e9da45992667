"""The table of models: every row is whole, its count is the published one, and names find it."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.data import HubModel, shapes
from jobgen.strategy.shapes import build_model, find_model, suggest_models
from jobgen.strategy.shapes.families import FAMILIES

ROWS = {row.id: row for row in shapes()}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_each_row_counts_to_its_parameters(row: HubModel) -> None:
    arch = find_model(row.id)
    assert arch is not None
    built = build_model(arch)
    assert built.count == row.params == built.outside + sum(x.times * x.count for x in built.layers)
    assert sum(layer.times for layer in built.layers) == arch.layers == row.sizes["layers"]
    assert arch.most == row.sizes["most"] > 0
    assert row.source
    assert row.type in FAMILIES


def test_each_name_stands_once_and_its_last_part_finds_it() -> None:
    names = [(name, row.id) for row in ROWS.values() for name in (row.id, *row.aliases)]
    assert len({name.lower() for name, _ in names}) == len(names)
    for name, wanted in names:
        arch = find_model(name)
        assert arch is not None
        assert arch.name == wanted
    lasts = {(name.rpartition("/")[2].lower(), find_model(name)) for name, _ in names}
    twice = [last for last, times in Counter(last for last, _ in lasts).items() if times > 1]
    assert twice == []


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B"),
        ("Llama-3.1-8B", "meta-llama/Llama-3.1-8B"),
        ("llama-3.1-8b-instruct", "meta-llama/Llama-3.1-8B"),
        (" META-LLAMA/llama-3.3-70B-Instruct ", "meta-llama/Llama-3.1-70B"),
        ("gpt2", "openai-community/gpt2"),
        ("deepseek-ai/DeepSeek-R1", "deepseek-ai/DeepSeek-V3"),
    ],
)
def test_a_model_is_found_in_any_case_and_by_its_last_part(name: str, wanted: str) -> None:
    arch = find_model(name)
    assert arch is not None
    assert arch.name == wanted


@pytest.mark.parametrize("name", ["", "/", "meta-llama", "acme/Llama-3.1-8B", "config.json"])
def test_another_name_is_unknown(name: str) -> None:
    assert find_model(name) is None


def test_a_name_that_is_nearly_one_gets_those_it_may_be() -> None:
    assert "meta-llama/Llama-3.1-8B" in suggest_models("meta-llama/Llama3.1-8B")
    assert suggest_models("Qwen/Qwen3.5-9B-Base")[0] == "Qwen/Qwen3.5-9B"
    assert "mistralai/Mistral-7B-v0.1" in suggest_models("mistral-7b-v01")
    assert "moonshotai/Kimi-K2-Base" in suggest_models("moonshotai/Kimi-K2")  # the rest is left out
    assert suggest_models("entirely-something-else") == []


@given(st.text(max_size=60))
def test_any_text_is_a_name_or_none(name: str) -> None:
    assert find_model(name) is None or name.strip()
    assert all(find_model(found) for found in suggest_models(name))


@pytest.mark.parametrize(
    ("name", "params", "active"),
    [
        # what the makers say: Mixtral 46.7B/12.9B, DeepSeek-V3 671B/37B, Qwen3 30.5B/3.3B
        ("meta-llama/Llama-4-Maverick-17B-128E", 400e9, 17e9),
        ("mistralai/Mixtral-8x7B-v0.1", 46.7e9, 12.9e9),
        ("deepseek-ai/DeepSeek-V3", 671e9, 37e9),
        ("deepseek-ai/DeepSeek-V2", 236e9, 21e9),
        ("Qwen/Qwen3-30B-A3B", 30.5e9, 3.3e9),
        ("Qwen/Qwen3-235B-A22B", 235e9, 22e9),
    ],
)
def test_a_token_passes_as_many_as_the_makers_say(name: str, params: float, active: float) -> None:
    arch = find_model(name)
    assert arch is not None
    built = build_model(arch)
    assert built.count == pytest.approx(params, rel=0.01)
    assert built.active == pytest.approx(active, rel=0.025)
