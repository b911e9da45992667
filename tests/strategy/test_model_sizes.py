"""The sizes of a model: from job.yaml's mapping, and from files as transformers writes them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.model.train import Train
from jobgen.strategy.model_sizes import check_config_sizes, read_architecture, read_sizes
from jobgen.strategy.spec import ModelSizes
from tests.strategy.made import LLAMA_CONFIG

FILE = "model/config.json"


def read(data: Any) -> ModelSizes:
    known, found = read_sizes(Train(model=FILE), {FILE: json.dumps(data).encode()})
    assert found == []
    return known


def test_a_mapping_fills_what_it_leaves_out() -> None:
    shape = {"layers": 2, "hidden": 64, "heads": 4}
    known, found = read_sizes(Train(model=shape), {})
    assert known == ModelSizes(layers=2, hidden=64, heads=4, kv_heads=4, ffn=256, experts=0)
    assert found == []


@pytest.mark.parametrize("model", [None, "acme/Unheard-Of-8B", FILE])
def test_without_the_file_nothing_is_known(model: str | None) -> None:
    train = Train(model=model) if model else Train()
    assert read_sizes(train, {}) == (ModelSizes(model or ""), [])


@pytest.mark.parametrize("model", ["meta-llama/Llama-3.1-8B", "llama-3.1-8b-INSTRUCT"])
def test_an_id_of_the_hub_is_known_without_a_file(model: str) -> None:
    wanted = ModelSizes(model, 32, 4096, 32, 8, 14336, 128256, experts=0)
    assert read_sizes(Train(model=model), {}) == (wanted, [])


def test_a_file_of_the_workdir_comes_before_the_hub() -> None:
    content = json.dumps({"num_hidden_layers": 3}).encode()
    assert read_sizes(Train(model="gpt2"), {"gpt2": content}) == (ModelSizes("gpt2", layers=3), [])


def test_a_known_type_is_read_as_transformers_builds_it() -> None:
    """Falcon-7B's file says num_kv_heads: 71, and its model has one."""
    data = {
        "model_type": "falcon",
        "num_hidden_layers": 32,
        "hidden_size": 4544,
        "num_attention_heads": 71,
        "num_kv_heads": 71,
        "vocab_size": 65024,
        "multi_query": True,
    }
    assert read(data) == ModelSizes(FILE, 32, 4544, 71, 1, 4 * 4544, 65024, experts=0)


@pytest.mark.parametrize(
    ("model", "files", "words"),
    [
        (None, {}, "is not set"),
        ("meta-llama/Llama-3.1-9B", {}, "meta-llama/Llama-3.1-8B"),
        (FILE, {FILE: b"{"}, "is not valid JSON"),
        (FILE, {FILE: b'{"model_type": "llama"}'}, "hidden_size is missing"),
        (
            FILE,
            {FILE: b'{"model_type": "llama", "vocab_size": -1}'},
            "vocab_size must be an integer",
        ),
    ],
)
def test_what_keeps_a_model_unknown_is_said(
    model: str | None, files: dict[str, bytes], words: str
) -> None:
    arch, why = read_architecture(Train(model=model), files)
    assert arch is None
    assert words in why


def test_a_whole_architecture_is_known_or_in_doubt() -> None:
    arch, why = read_architecture(Train(model="gpt2"), {})
    assert (arch and arch.positions, why) == (1024, "")
    arch, why = read_architecture(Train(model={"layers": 2, "hidden": 64, "heads": 4}), {})
    assert arch is not None
    assert "vocab" in why


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (
            {
                "num_hidden_layers": 32,
                "hidden_size": 4096,
                "num_attention_heads": 32,
                "num_key_value_heads": 8,
                "intermediate_size": 14336,
                "vocab_size": 128256,
            },
            ModelSizes(FILE, 32, 4096, 32, 8, 14336, 128256),
        ),
        (
            {"n_layer": 12, "n_embd": 768, "n_head": 12, "n_inner": None, "vocab_size": 50257},
            ModelSizes(FILE, 12, 768, 12, 12, None, 50257),
        ),
        ({"n_head": 71, "multi_query": True}, ModelSizes(FILE, heads=71, kv_heads=1)),
        (
            {"text_config": {"num_hidden_layers": 4}, "vision_config": {}},
            ModelSizes(FILE, layers=4),
        ),
        ({"num_local_experts": 8, "num_hidden_layers": True}, ModelSizes(FILE, experts=8)),
    ],
)
def test_files_of_transformers_are_understood(data: dict[str, Any], wanted: ModelSizes) -> None:
    assert read(data) == wanted


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe", b"[1]", b'"x"', b"[" * 100_000, b"1" * 5000]
)
def test_a_file_that_is_no_mapping_is_a_fault(content: bytes) -> None:
    known, (fault,) = read_sizes(Train(model=FILE), {FILE: content})
    assert known == ModelSizes(FILE)
    assert (fault.code, fault.path) == ("J237", ("model",))
    assert len(fault.message) < 300


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
keys = st.sampled_from(
    ["hidden_size", "n_head", "num_attention_heads", "n_layer", "text_config", "multi_query"]
)


@given(st.dictionaries(keys, values | st.dictionaries(keys, values)))
def test_whatever_the_file_says_sizes_are_positive_or_unknown(data: dict[str, Any]) -> None:
    found = read(data)._asdict()
    assert found.pop("name") == FILE
    assert all(v is None or (type(v) is int and v > 0) for v in found.values())


@pytest.mark.parametrize(
    ("values", "line", "message", "hint"),
    [
        ({"num_attention_heads": 7}, 5, "num_attention_heads 7 does not", "num_attention_heads: 8"),
        ({"num_key_value_heads": 3}, 8, "num_key_value_heads 3 does not", "num_key_value_heads: 2"),
        ({"vocab_size": 0}, 7, "vocab_size must be an integer from 1 to 1073741824, not 0", ""),
        ({"num_hidden_layers": -2}, 3, "num_hidden_layers must be an integer from 1", ""),
        ({"hidden_size": 10**12}, 4, "hidden_size must be an integer from 1", ""),
        ({"hidden_size": "64"}, 4, "hidden_size must be an integer from 1", "write 64"),
        ({"hidden_size": 64.0}, 4, "hidden_size must be an integer from 1", "write 64"),
        (
            {"hidden_size": "wide"},
            4,
            'hidden_size must be an integer from 1 to 1073741824, not "',
            "",
        ),
        (
            {"model_type": "own", "vocab_size": "100"},
            7,
            "vocab_size must be an integer",
            "write 100",
        ),
        ({"rope_theta": "1e6"}, 8, 'rope_theta must be a number, not "1e6"', "write 1e6"),
        (
            {"rope_parameters": {"rope_theta": "1e6"}},
            9,
            'rope_theta must be a number, not "1e6"',
            "write 1e6",
        ),
        (
            {"tie_word_embeddings": "true"},
            8,
            "tie_word_embeddings must be true or false",
            "write true",
        ),
        (
            {"model_type": "gpt2", "head_dim": 32},
            8,
            "head_dim 32, but models of type gpt2 have hidden_size 64 / num_attention_heads 4 = 16",
            "set head_dim: 16, or remove it",
        ),
        (
            {"num_local_experts": "8", "num_experts_per_tok": 2, "model_type": "mixtral"},
            8,
            "num_local_experts must be",
            "write 8",
        ),
        ({"model_type": "own", "vocab_size": 0}, 7, "vocab_size must be an integer from 1", ""),
    ],
)
def test_sizes_that_no_model_has_have_the_line_of_the_file(
    values: dict[str, Any], line: int, message: str, hint: str
) -> None:
    text = json.dumps({**LLAMA_CONFIG, **values}, indent=1).encode()
    (fault,) = check_config_sizes(Train(model=FILE), {FILE: text})
    assert fault.message.startswith(message)
    assert hint in fault.hint
    assert fault.place is not None
    assert (fault.code, fault.place.file, fault.place.line) == ("J138", FILE, line)
    assert fault.place.end_col > fault.place.col > 0


@pytest.mark.parametrize(
    "data",
    [
        LLAMA_CONFIG,
        {**LLAMA_CONFIG, "hidden_size": None},
        {**LLAMA_CONFIG, "model_type": "own", "num_attention_heads": 7},
        {**LLAMA_CONFIG, "model_type": "own", "num_attention_heads": [4, 2]},
        {**LLAMA_CONFIG, "num_attention_heads": 7, "head_dim": 16},
        {**LLAMA_CONFIG, "head_dim": 32},
        {**LLAMA_CONFIG, "model_type": "gpt2", "head_dim": 16},
        {**LLAMA_CONFIG, "model_type": "own", "rope_scaling": {"factor": "2"}},
        [],
    ],
)
def test_what_a_file_leaves_out_or_another_type_may_have_is_no_error(data: Any) -> None:
    assert check_config_sizes(Train(model=FILE), {FILE: json.dumps(data).encode()}) == []


def test_the_part_about_text_has_the_line() -> None:
    inner = {**LLAMA_CONFIG, "model_type": "gemma3_text", "vocab_size": 0}
    text = json.dumps({"vocab_size": 5, "text_config": inner}, indent=1)
    (fault,) = check_config_sizes(Train(model=FILE), {FILE: text.encode()})
    assert fault.place is not None
    assert text.split("\n")[fault.place.line - 1].strip() == '"vocab_size": 0'
