"""config.json of any kind: what is known is read, what is missing is said, nothing breaks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.data import HubModel, shapes
from jobgen.strategy.shapes import Architecture, build_model, find_model, read
from jobgen.strategy.shapes.config_keys import EXPERTS, KEYS, LATENT
from jobgen.strategy.shapes.families import FAMILIES
from jobgen.strategy.shapes.hybrids import describe_mixers
from jobgen.strategy.shapes.table import build_config
from tests.strategy.made import LLAMA_CONFIG


@pytest.mark.parametrize("row", shapes(), ids=lambda row: row.id)
def test_what_the_table_writes_is_read_as_it_is_known(row: HubModel) -> None:
    assert read(build_config(row), row.id) == (find_model(row.id), "")


def changed(**values: Any) -> tuple[Architecture | None, str]:
    said = {**LLAMA_CONFIG, **values}
    return read({key: value for key, value in said.items() if value != "gone"}, "some/model")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"hidden_size": "gone"}, "hidden_size is missing"),
        ({"hidden_size": "64"}, "hidden_size must be an integer"),
        ({"num_hidden_layers": -2}, "num_hidden_layers must be an integer"),
        ({"num_hidden_layers": 2.0}, "num_hidden_layers must be an integer"),
        ({"vocab_size": 10**30}, "vocab_size must be an integer"),
        ({"vocab_size": True}, "vocab_size must be an integer"),
        ({"intermediate_size": None}, "intermediate_size is missing"),
        ({"num_key_value_heads": [8]}, "num_key_value_heads must be an integer"),
        (
            {"num_attention_heads": 7},
            "num_attention_heads 7 does not divide hidden_size 64, and head_dim is not set",
        ),
        (
            {"num_attention_heads": 4, "num_key_value_heads": 3},
            "num_key_value_heads 3 does not divide num_attention_heads 4",
        ),
        ({"model_type": "mixtral"}, "num_local_experts is missing; num_experts_per_tok is missing"),
        (
            {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 5},
            "num_experts_per_tok 5 is more than num_local_experts 4",
        ),
        ({"model_type": "gpt2"}, "n_positions is missing"),
        ({"model_type": "new_one", "num_experts": 8}, "num_experts_per_tok is missing"),
        ({"model_type": "deepseek_v3"}, "kv_lora_rank is missing"),
    ],
)
def test_without_a_size_there_is_no_model_and_the_key_is_named(
    values: dict[str, Any], words: str
) -> None:
    arch, why = changed(**values)
    assert arch is None
    assert words in why


def test_each_fault_is_said_once() -> None:
    _, why = read({"model_type": "llama", "hidden_size": "x"}, "m")
    assert why.count("hidden_size") == 1
    assert why.count(";") == 4


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"model_type": "new_one"}, "unknown model_type 'new_one'"),
        ({"model_type": "gone"}, "a file without model_type"),
        ({"model_type": ["llama"]}, "a file without model_type"),
        ({"model_type": "\x1b[2J" + "x" * 500}, r"model_type '\x1b[2Jxxx"),
        ({"model_type": "cohere", "use_qk_norm": True}, "norms of queries and keys"),
        ({"vision_config": {}}, "only the text part"),
    ],
)
def test_a_doubt_is_said_beside_the_model(values: dict[str, Any], words: str) -> None:
    arch, why = changed(**values)
    assert arch is not None
    assert words in why
    assert len(why) < 200
    assert why.isprintable()


def test_an_unknown_type_is_read_with_what_its_file_says() -> None:
    arch, _ = changed(model_type="new_one", tie_word_embeddings=True, qkv_bias=True)
    assert arch is not None
    assert (arch.tied, arch.qkv_bias, arch.layer_norm, arch.gated) == (True, True, False, True)
    arch, _ = changed(model_type="new_one", layer_norm_eps=1e-5, intermediate_size="gone")
    assert arch is not None
    assert (arch.layer_norm, arch.gated, arch.ffn) == (True, False, 256)
    for act, gated in (("relu2", False), ("gelu", False), ("gelu_pytorch_tanh", True)):
        arch, _ = changed(model_type="new_one", hidden_act=act)
        assert arch is not None
        assert arch.gated is gated
    experts = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
    arch, _ = changed(model_type="new_one", intermediate_size="gone", **experts)
    assert arch is not None
    assert arch.gated
    arch, _ = changed(model_type="new_one", num_experts=0)
    assert arch is not None
    assert arch.experts is None
    arch, _ = changed(model_type="new_one", num_experts=8, num_experts_per_tok=2)
    assert arch is not None
    assert arch.experts is not None
    assert (arch.experts.count, arch.experts.active, arch.experts.ffn) == (8, 2, 96)


def test_a_nested_text_is_read_with_its_own_type() -> None:
    whole = {"model_type": "gemma3", "text_config": {**LLAMA_CONFIG, "model_type": "gemma3_text"}}
    arch, why = read(whole, "m")
    assert arch is not None
    assert (arch.norms, arch.head_dim, arch.tied, why) == (4, 256, True, "")
    arch, _ = read({**whole, "tie_word_embeddings": False}, "m")
    assert arch is not None
    assert not arch.tied


def test_gemma_3_4b_is_known_from_the_little_that_its_file_says() -> None:
    text = {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240}
    text |= {"num_hidden_layers": 34}
    arch, _ = read({"model_type": "gemma3", "text_config": text}, "google/gemma-3-4b-pt")
    wanted = find_model("google/gemma-3-4b-pt")
    assert arch is not None
    assert wanted is not None
    assert build_model(arch) == build_model(wanted._replace(most=None))


words = [key for table in (KEYS, EXPERTS, LATENT) for keys in table.values() for key in keys]
words += [key for family in FAMILIES.values() for keys in family.keys.values() for key in keys]
words += [key for family in FAMILIES.values() for key in family.flags]
words += ["layer_types", "layers_block_type", "hybrid_override_pattern", "full_attention_interval"]
words += ["linear_num_value_heads", "linear_attn_config", "mlp_layer_types", "mamba_n_heads"]
words += ["mamba_d_head", "mamba_dt_rank", "attn_layer_period", "block_ffn_dim_multiplier"]
words += ["text_config", "vision_config", "mlp_only_layers", "n_shared_experts", "multi_query"]
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers(1, 99) | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(words), inner),
    max_leaves=8,
)
sensible = st.integers(1, 1 << 31)


@given(
    st.sampled_from([*FAMILIES, "", "other"]),
    st.dictionaries(st.sampled_from(words), sensible),
    st.dictionaries(st.sampled_from(words) | st.text(), values, max_size=8),
    st.booleans(),
)
def test_whatever_a_file_says_a_model_is_whole_or_missing(
    kind: str, good: dict[str, Any], bad: dict[str, Any], nested: bool
) -> None:
    said = {"model_type": kind, **good, **bad}
    arch, why = read({"text_config": said} if nested else said, "m")
    if arch is None:
        assert why
        return
    built = build_model(arch)
    assert built.count > 0
    assert 0 < built.active <= built.count
    assert all(size > 0 for tensor, _ in built.list_tensors() for size in tensor.shape)
    assert sum(layer.times for layer in built.layers) == arch.layers


@given(
    st.sampled_from(list(shapes())),
    st.sampled_from(["num_hidden_layers", "hidden_size", "vocab_size", "model_type"]),
    values,
)
def test_one_hostile_value_never_breaks_the_reading(row: HubModel, key: str, value: object) -> None:
    arch, why = read({**build_config(row), key: value}, row.id)
    assert why or arch is not None


@pytest.mark.parametrize(
    ("kind", "keys", "drops"),
    [
        ("gpt2", {}, (True, True)),
        ("gpt2", {"resid_pdrop": 0.0}, (False, True)),
        ("gpt2", {"attn_pdrop": 0, "resid_pdrop": 0.2}, (True, False)),
        ("opt", {}, (True, False)),
        ("opt", {"dropout": 0.0, "attention_dropout": 0.1}, (False, True)),
        ("llama", {"attention_dropout": 0.0}, (False, False)),
        ("starcoder2", {"residual_dropout": 0.1, "attention_dropout": 0.1}, (True, True)),
        ("gpt2", {"resid_pdrop": "0.0"}, (True, True)),
    ],
)
def test_dropout_is_what_the_file_or_its_type_has(
    kind: str, keys: dict[str, Any], drops: tuple[bool, bool]
) -> None:
    row = next(row for row in shapes() if row.type == kind)
    arch, _ = read({**build_config(row), **keys}, row.id)
    assert arch is not None
    assert (arch.hidden_dropout, arch.attention_dropout) == drops


@pytest.mark.parametrize(("use", "norm"), [(True, "head"), (False, "")])
def test_a_type_whose_file_turns_on_norms_of_heads_has_them(use: bool, norm: str) -> None:
    experts = {"n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
    arch, why = changed(model_type="glm4_moe", use_qk_norm=use, **experts)
    assert arch is not None
    assert (arch.qk_norm, why) == (norm, "")


def test_kinds_of_layers_are_counted_where_the_file_lists_them() -> None:
    kinds = ["dense", "sparse"]
    experts = {"num_experts": 8, "num_experts_per_tok": 2, "mlp_layer_types": kinds}
    arch, _ = changed(model_type="qwen3_moe", first_k_dense_replace=0, **experts)
    assert arch is not None
    assert arch.experts is not None
    assert arch.experts.dense_layers == 1


DELTA = {**LLAMA_CONFIG, "model_type": "qwen3_5_text", "full_attention_interval": 2}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"layer_types": ["full_attention"]}, "layer_types lists 1 layers, but num_hidden_layers"),
        ({"num_hidden_layers": 1 << 30}, "num_hidden_layers must be at most 10000"),
        ({"linear_num_key_heads": "16"}, "linear_num_key_heads must be an integer"),
        ({"model_type": "nemotron_h"}, "layers_block_type must be a list of linear_attention"),
        ({"model_type": "nemotron_h", "layers_block_type": [{}, "mlp"]}, "layers_block_type must"),
        ({"model_type": "lfm2", "block_ffn_dim_multiplier": "1"}, "block_ffn_dim_multiplier must"),
    ],
)
def test_a_fault_of_a_hybrid_is_said(values: dict[str, Any], words: str) -> None:
    arch, why = read({**DELTA, **values}, "m")
    assert arch is None
    assert words in why


def test_layers_without_attention_are_described() -> None:
    arch, doubt = read(DELTA, "m")
    assert arch is not None
    assert not doubt
    assert describe_mixers(arch) == "1 of 2 layers are gated delta nets"
    whole, _ = read({**DELTA, "full_attention_interval": 1}, "m")
    assert whole is not None
    assert describe_mixers(whole) == ""
    both, _ = read({**DELTA, "model_type": "falcon_h1"}, "m")
    assert both is not None
    assert describe_mixers(both) == "2 of 2 layers are Mamba-2 layers beside attention"
