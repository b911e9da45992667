"""Against transformers itself: the same parameters, tensor by tensor, built on the meta device."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from jobgen.data import HubModel, shapes
from jobgen.strategy.shapes import Architecture, build_model, find_model, read
from jobgen.strategy.shapes.families import FAMILIES
from jobgen.strategy.shapes.table import build_config

pytestmark = pytest.mark.train("torch", "transformers")

ONLY_ON_THE_HUB = (
    "qwen",
    "qwen2_vl",
    "baichuan",
    "internlm2",
    "deepseek",
    "kimi_k2",
    "qwen3_vl_moe_text",
)
"""Types whose code lies beside their weights; and those that transformers builds with eyes."""
ROWS = {row.id: row for row in shapes() if row.type not in ONLY_ON_THE_HUB}


def configured(kind: str, said: dict[str, Any]) -> Any:
    from transformers import AutoConfig

    said = {key: value for key, value in said.items() if key != "model_type"}
    if kind == "gpt_neo":  # whose class wants one kind of attention for each layer
        said["attention_types"] = [[["global", "local"], said["num_layers"] // 2]]
    return AutoConfig.for_model(kind, **said)


def tensors(settings: Any) -> Counter[tuple[int, ...]]:
    import torch
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        built = AutoModelForCausalLM.from_config(settings)
    return Counter(tuple(parameter.shape) for parameter in built.parameters())


def ours(arch: Architecture) -> Counter[tuple[int, ...]]:
    found: Counter[tuple[int, ...]] = Counter()
    for tensor, layers in build_model(arch).list_tensors():
        found[tensor.shape] += layers * tensor.times
    return found


CONSTANTS: dict[str, Any] = dict.fromkeys(("rotary_base", "norm_epsilon", "balance_loss"))


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_model_of_the_hub_has_these_tensors(row: HubModel) -> None:
    settings = configured(row.type, build_config(row))
    arch = find_model(row.id)
    assert arch is not None
    assert ours(arch) == tensors(settings)
    for said in (settings.to_json_string(use_diff=False), settings.to_json_string(use_diff=True)):
        again, doubt = read(json.loads(said), row.id)
        assert again is not None
        # transformers writes its defaults of what sizes nothing
        assert again._replace(**CONSTANTS) == arch._replace(**CONSTANTS)
        assert not doubt


SMALL = {
    "num_hidden_layers": 5,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "vocab_size": 160,
    "pad_token_id": None,
}
GPT = {"n_layer": 2, "n_embd": 64, "n_head": 4, "n_inner": 96, "vocab_size": 160}
MIXED = {
    **SMALL,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
    "num_key_value_heads": 2,
}
LIKE_MIXTRAL = {**SMALL, "num_key_value_heads": 2, "num_local_experts": 8}
LATENT = {**MIXED, "n_routed_experts": 8, "first_k_dense_replace": 2, "kv_lora_rank": 32}
DENSE_FIRST = {**MIXED, "n_routed_experts": 8, "first_k_dense_replace": 2}
DELTA = {
    "num_key_value_heads": 2,
    "head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 24,
    "linear_conv_kernel_dim": 3,
}
ROUTED = {**MIXED, **DELTA, "shared_expert_intermediate_size": 40}
MAMBA = {**SMALL, "num_key_value_heads": 2, "mamba_n_heads": 8, "mamba_d_state": 12}
LONG = {**LIKE_MIXTRAL, "num_experts": 8, "num_hidden_layers": 9}
NESTED = {
    "num_heads": 2,
    "head_dim": 12,
    "short_conv_kernel_size": 3,
    "full_attn_layers": [2, 5],
    "kda_layers": [1, 3, 4],
}
CONVOLVED = {**SMALL, "num_key_value_heads": 2}
KINDS = ["conv", "conv", "full_attention", "conv", "full_attention"]
ALONE = {
    **SMALL,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "mamba_num_heads": 6,
    "mamba_head_dim": 8,
    "n_groups": 2,
    "ssm_state_size": 12,
    "num_hidden_layers": 4,
}
LLAMA_4 = {**LIKE_MIXTRAL, "head_dim": 16, "intermediate_size_mlp": 128}

VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("llama", {**SMALL, "attention_bias": True, "mlp_bias": True, "num_key_value_heads": 2}),
    ("llama", {**SMALL, "tie_word_embeddings": True, "head_dim": 32}),
    ("mistral", {**SMALL, "num_key_value_heads": 2, "head_dim": 24}),
    ("qwen2_moe", {**MIXED, "qkv_bias": False, "decoder_sparse_step": 2}),
    ("qwen2_moe", {**MIXED, "shared_expert_intermediate_size": 48, "mlp_only_layers": [0, 3]}),
    ("qwen3_moe", {**MIXED, "decoder_sparse_step": 3, "attention_bias": True}),
    ("gemma", {**SMALL, "num_key_value_heads": 2, "attention_bias": True}),
    ("gemma3_text", {**SMALL, "tie_word_embeddings": False}),
    ("phi", {**SMALL, "num_key_value_heads": 2}),
    ("gpt2", {**GPT, "tie_word_embeddings": False}),
    ("gpt_neox", {**SMALL, "attention_bias": False, "tie_word_embeddings": True}),
    ("gpt_bigcode", {**GPT, "multi_query": False}),
    ("gptj", GPT),
    ("codegen", {**GPT, "n_head": 16}),
    ("falcon", {**SMALL, "bias": True, "ffn_hidden_size": 96}),
    ("falcon", {**SMALL, "multi_query": False, "parallel_attn": False}),
    ("falcon", {**SMALL, "new_decoder_architecture": True, "num_kv_heads": 2}),
    ("falcon", {**SMALL, "new_decoder_architecture": True, "num_ln_in_parallel_attn": 1}),
    ("opt", {**SMALL, "ffn_dim": 96, "enable_bias": False}),
    ("opt", {**SMALL, "ffn_dim": 96, "layer_norm_elementwise_affine": False}),
    ("opt", {**SMALL, "ffn_dim": 96, "_remove_final_layer_norm": True}),
    ("deepseek_v2", {**LATENT, "q_lora_rank": None, "n_shared_experts": 3}),
    ("deepseek_v2", {**LATENT, "attention_bias": True, "q_lora_rank": 24}),
    ("deepseek_v3", {**LATENT, "attention_bias": True, "qk_nope_head_dim": 8, "v_head_dim": 12}),
    ("olmo", {**SMALL, "attention_bias": True}),
    ("olmo2", {**SMALL, "num_key_value_heads": 2, "attention_bias": True}),
    ("starcoder2", {**SMALL, "num_key_value_heads": 2, "use_bias": False}),
    ("stablelm", {**SMALL, "num_key_value_heads": 2, "use_parallel_residual": True}),
    ("cohere", {**SMALL, "num_key_value_heads": 2, "attention_bias": True}),
    ("granite", {**SMALL, "mlp_bias": True}),
    ("smollm3", {**SMALL, "num_key_value_heads": 2, "tie_word_embeddings": False}),
    ("glm", {**SMALL, "num_key_value_heads": 2, "attention_bias": False}),
    ("glm4", {**SMALL, "num_key_value_heads": 2, "head_dim": 16}),
    ("gpt_oss", {**SMALL, "num_key_value_heads": 2, "attention_bias": False}),
    ("ministral", {**SMALL, "num_key_value_heads": 2, "head_dim": 24}),
    ("minimax_m2", {**LIKE_MIXTRAL, "head_dim": 16}),
    ("llama4_text", {**LLAMA_4, "interleave_moe_layer_step": 1}),
    ("llama4_text", {**LLAMA_4, "interleave_moe_layer_step": 2, "attention_bias": True}),
    ("arcee", {**SMALL, "mlp_bias": True, "head_dim": 16}),
    ("nemotron", {**SMALL, "num_key_value_heads": 2, "attention_bias": True, "head_dim": 16}),
    ("helium", {**SMALL, "num_key_value_heads": 2, "head_dim": 16}),
    ("seed_oss", {**SMALL, "num_key_value_heads": 2, "head_dim": 16, "mlp_bias": True}),
    ("seed_oss", {**SMALL, "num_key_value_heads": 4, "attention_bias": False}),
    ("ernie4_5", {**SMALL, "num_key_value_heads": 2, "head_dim": 16}),
    ("ernie4_5", {**SMALL, "use_bias": True, "tie_word_embeddings": False}),
    ("exaone4", {**SMALL, "num_key_value_heads": 2, "tie_word_embeddings": True}),
    ("hunyuan_v1_dense", {**SMALL, "num_key_value_heads": 2, "head_dim": 16}),
    ("dots1", {**DENSE_FIRST, "attention_bias": True, "n_shared_experts": 2}),
    ("phimoe", {**LIKE_MIXTRAL, "attention_bias": True, "lm_head_bias": True}),
    ("olmo3", {**SMALL, "num_key_value_heads": 2, "attention_bias": True}),
    ("flex_olmo", {**LIKE_MIXTRAL, "num_experts": 8, "attention_bias": True}),
    ("cohere2", {**SMALL, "num_key_value_heads": 2, "head_dim": 16}),
    ("glm4_moe", {**DENSE_FIRST, "use_qk_norm": True, "attention_bias": True, "head_dim": 16}),
    ("glm4_moe_lite", {**LATENT, "q_lora_rank": 24, "n_shared_experts": 2}),
    ("youtu", {**LATENT, "q_lora_rank": 24}),
    ("minicpm3", {**LATENT, "q_lora_rank": 24}),
    ("granitemoe", LIKE_MIXTRAL),
    ("granitemoeshared", {**LIKE_MIXTRAL, "shared_intermediate_size": 40}),
    ("qwen3_next", ROUTED),
    ("qwen3_next", {**ROUTED, "decoder_sparse_step": 2, "attention_bias": True}),
    ("qwen3_next", {**ROUTED, "mlp_only_layers": [0, 3], "full_attention_interval": 2}),
    ("qwen3_5_text", {**SMALL, **DELTA, "tie_word_embeddings": True}),
    ("qwen3_5_text", {**SMALL, **DELTA, "layer_types": ["full_attention"] * 5}),
    ("qwen3_5_moe_text", {**ROUTED, "full_attention_interval": 3}),
    ("olmo_hybrid", SMALL),
    ("olmo_hybrid", {**SMALL, **DELTA, "attention_bias": True}),
    ("kimi_linear", {**LATENT, "linear_num_heads": 2, "linear_head_dim": 12}),
    ("kimi_linear", {**LATENT, "mlp_layer_types": ["dense"] * 4 + ["sparse"], "q_lora_rank": 24}),
    ("kimi_linear", {**LATENT, "linear_attn_config": NESTED, "q_lora_rank": None}),
    ("lfm2", {**CONVOLVED, "layer_types": KINDS, "conv_bias": True}),
    ("lfm2", {**CONVOLVED, "full_attn_idxs": [1], "conv_L_cache": 4}),
    ("lfm2", {**CONVOLVED, "layer_types": KINDS, "block_auto_adjust_ff_dim": False}),
    ("lfm2", {**CONVOLVED, "block_ffn_dim_multiplier": 1.3, "block_multiple_of": 8}),
    ("lfm2_moe", {**MIXED, "layer_types": KINDS, "num_dense_layers": 1}),
    ("bamba", {**MAMBA, "attn_layer_indices": [1, 4], "attention_bias": True}),
    ("bamba", {**MAMBA, "mamba_n_groups": 4, "mamba_conv_bias": False, "mamba_proj_bias": True}),
    ("granitemoehybrid", {**MAMBA, "num_local_experts": 4, "layer_types": ["mamba"] * 5}),
    ("granitemoehybrid", {**MAMBA, "num_local_experts": 0, "shared_intermediate_size": 40}),
    ("falcon_h1", {**MAMBA, "mamba_d_ssm": 48, "head_dim": 32, "mlp_bias": True}),
    ("falcon_h1", {**MAMBA, "mamba_d_ssm": None, "projectors_bias": True, "mamba_rms_norm": True}),
    ("jamba", {**LONG, "mamba_d_state": 12}),
    ("jamba", {**LONG, "num_experts": 1, "mamba_dt_rank": 5, "mamba_proj_bias": True}),
    ("jamba", {**LONG, "attn_layer_period": 3, "attn_layer_offset": 1, "expert_layer_period": 4}),
    ("nemotron_h", {**ALONE, "hybrid_override_pattern": "M-M*", "use_bias": True}),
    ("nemotron_h", {**ALONE, "hybrid_override_pattern": "MEM*E", "moe_latent_size": 20}),
]


@pytest.mark.parametrize(("kind", "said"), VARIANTS)
def test_what_a_configuration_turns_on_or_off_is_counted(kind: str, said: dict[str, Any]) -> None:
    settings = configured(kind, said)
    arch, doubt = read(json.loads(settings.to_json_string(use_diff=False)), kind)
    assert doubt == ""
    assert arch is not None
    assert ours(arch) == tensors(settings)


def test_every_type_that_transformers_has_was_built_here() -> None:
    tried = {row.type for row in ROWS.values()} | {kind for kind, _ in VARIANTS}
    same = {kind for kind in FAMILIES for other in tried if FAMILIES[kind] is FAMILIES[other]}
    assert set(FAMILIES) - tried - same == set(ONLY_ON_THE_HUB) - same


def test_of_a_model_that_sees_the_text_is_counted() -> None:
    from transformers import AutoConfig

    text = {**SMALL, "model_type": "gemma3_text", "head_dim": 16}
    settings = AutoConfig.for_model("gemma3", text_config=text)
    arch, doubt = read(json.loads(settings.to_json_string(use_diff=True)), "gemma3")
    assert arch is not None
    assert "only the text part" in doubt
    assert ours(arch) == tensors(settings.text_config)
