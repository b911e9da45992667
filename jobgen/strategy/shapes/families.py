"""What of each ``model_type`` differs from Llama: a table, read from transformers 5.23.

Its folder ``models`` has a ``configuration_X.py`` and a ``modeling_X.py`` for each. Types that
transformers itself does not have (qwen, baichuan, internlm2, deepseek, kimi_k2) are read from the
code that lies beside their weights on the Hub.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobgen.named_tuple import NamedTuple
from jobgen.strategy.shapes.config_keys import Keys

_NONE: Mapping[str, Any] = {}


class ModelFamily(NamedTuple):
    """How the models of one type are built."""

    has: Mapping[str, Any] = _NONE
    """Fields of Architecture that are not Llama's."""
    flags: Keys = _NONE
    """A key of config.json that is true or false → the fields that it sets."""
    keys: Keys = _NONE
    """Sizes that have other keys than KEYS says."""
    defaults: Mapping[str, int] = _NONE
    """Sizes that config.json may leave out."""
    four: bool = False
    """The feed-forward layer is four times as wide as hidden, where nothing else is said."""
    learned: int | None = None
    """Learned positions: how many more rows there are than positions."""
    experts: Mapping[str, bool] | None = None
    """Fields of Experts that are not Mixtral's, where there are experts."""
    fewest_experts: int = 0
    """With fewer experts than this there are none."""
    latent: bool = False


_HALF = {"rotary": "part", "rotary_percent": 0.5}
_QUARTER = {"rotary": "part", "rotary_percent": 0.25}
_ADJACENT = {"special": "rotation of adjacent elements"}
_TIED = {"tie_word_embeddings": ("tied",)}
_BIAS = {**_TIED, "attention_bias": ("qkv_bias", "out_bias")}
_BIASES = {**_BIAS, "mlp_bias": ("mlp_bias",)}
_PLAIN = {"layer_norm": True, "gated": False}
_GPT = {**_PLAIN, "qkv_bias": True, "out_bias": True, "mlp_bias": True}
_LEARNED = {**_GPT, "rotary": ""}
_GEMMA_1 = {
    "tied": True,
    "wide_norm": True,
    "special": "GELU in a gated layer, and scaled embeddings",
}
_GEMMA = {**_GEMMA_1, "norms": 4}

LLAMA = ModelFamily(flags=_BIASES)
_QWEN2 = ModelFamily({"qkv_bias": True}, _TIED)
_QWEN3 = ModelFamily({"qk_norm": "head"}, _BIAS, defaults={"head_dim": 128})
_QWEN3_MOE = ModelFamily({"qk_norm": "head"}, _BIAS, experts=_NONE)
_MISTRAL = ModelFamily(flags=_TIED)
_MIXTRAL = ModelFamily(flags=_TIED, experts=_NONE)
_GEMMA3 = ModelFamily(
    {**_GEMMA, "qk_norm": "head"},
    _BIAS,
    defaults={"heads": 8, "kv_heads": 4, "head_dim": 256, "vocab": 262_208},
)
"""Its files on the Hub say only what differs from Gemma3TextConfig."""
_DEEPSEEK = ModelFamily(flags=_BIASES, experts=_NONE, latent=True)
_OLMO2 = ModelFamily({"qk_norm": "hidden", "wide_norm": True}, _BIAS)
_COHERE = ModelFamily({"layer_norm": True, "norm_bias": False, "norms": 1, "tied": True}, _BIAS)
_GRANITE = {"special": "multipliers for embeddings, attention, residuals and logits"}
_GLM = {
    "fused_gate_up": True,
    "qkv_bias": True,
    **_HALF,
    **_ADJACENT,
}
_N: Keys = {
    "layers": ("n_layer", "num_hidden_layers"),
    "hidden": ("n_embd", "hidden_size"),
    "heads": ("n_head", "num_attention_heads"),
    "ffn": ("n_inner",),
    "most": ("n_positions", "n_ctx"),
}
_WRITTEN = {"activation": "eager"}
_DROPPED = {"hidden_dropout": True, "attention_dropout": True}
"""Of types whose probabilities are 0.1 where config.json has none; OPT's is of hidden alone."""
_GPTJ = {
    **_PLAIN,
    **_WRITTEN,
    "mlp_bias": True,
    "head_bias": True,
    "norms": 1,
    **_QUARTER,
}
_QWEN3_NEXT = ModelFamily(
    {
        "qk_norm": "head",
        "wide_norm": True,
        "gated_attention": True,
        **_QUARTER,
    },
    _BIAS,
    defaults={"head_dim": 256},
    experts={"shared_gate": True},
)
_QWEN3_5 = _QWEN3_NEXT._replace(experts=None)
_QWEN3_5_MOE = _QWEN3_NEXT._replace(keys={"ffn": ("intermediate_size", "moe_intermediate_size")})
_LFM2 = ModelFamily(
    {"tied": True, "qk_norm": "head"},
    {**_TIED, "tie_embedding": ("tied",)},
    {"ffn": ("block_ff_dim", "intermediate_size")},
)

FAMILIES: Mapping[str, ModelFamily] = {
    "llama": LLAMA,
    "mistral": _MISTRAL,
    "ministral": _MISTRAL,
    "ministral3": _MISTRAL,
    "mixtral": _MIXTRAL,
    "minimax_m2": _MIXTRAL._replace(has={"qk_norm": "hidden", **_HALF}),
    "llama4_text": ModelFamily(
        {"special": "layers without position encoding"},
        _BIAS,
        {"ffn": ("intermediate_size_mlp", "intermediate_size")},
        experts={"transposed": True},
    ),
    "cwm": LLAMA,
    "arcee": LLAMA._replace(has={"gated": False, "special": "squared ReLU"}),
    "nemotron": LLAMA._replace(
        has={
            "gated": False,
            "layer_norm": True,
            **_HALF,
            "special": "squared ReLU, and norms with weights around 0",
        }
    ),
    "helium": LLAMA._replace(has={"wide_norm": True, **_ADJACENT}),
    "seed_oss": ModelFamily(
        {"qkv_bias": True, **_DROPPED},
        {
            **_TIED,
            "attention_bias": ("qkv_bias",),
            "attention_out_bias": ("out_bias",),
            "mlp_bias": ("mlp_bias",),
        },
    ),
    "ernie4_5": ModelFamily(
        {"tied": True, **_ADJACENT}, {**_TIED, "use_bias": ("qkv_bias", "out_bias", "mlp_bias")}
    ),
    "exaone4": ModelFamily(
        {"qk_norm": "head", "special": "norms behind attention and the feed-forward layer"}, _TIED
    ),
    "hunyuan_v1_dense": ModelFamily({"qk_norm": "head"}, _BIAS),
    "dots1": ModelFamily({"qk_norm": "head"}, _BIAS, experts=_NONE),
    "phimoe": ModelFamily(
        {"layer_norm": True}, {**_BIAS, "lm_head_bias": ("head_bias",)}, experts=_NONE
    ),
    "qwen": ModelFamily(
        {"qkv_bias": True, "fused_qkv": True},
        _TIED,
        {"head_dim": ("kv_channels",), "most": ("seq_length",)},
    ),
    "qwen2": _QWEN2,
    "qwen2_vl": _QWEN2,
    "qwen2_vl_text": _QWEN2,
    "qwen2_5_vl": _QWEN2,
    "qwen2_5_vl_text": _QWEN2,
    "qwen2_moe": ModelFamily(
        {"qkv_bias": True},
        {**_TIED, "qkv_bias": ("qkv_bias",)},
        experts={"shared_gate": True},
    ),
    "qwen3": _QWEN3,
    "qwen3_vl_text": _QWEN3,
    "qwen3_moe": _QWEN3_MOE,
    "qwen3_vl_moe_text": _QWEN3_MOE,
    "gemma": ModelFamily(_GEMMA_1, _BIAS, defaults={"head_dim": 256}),
    "gemma2": ModelFamily({**_GEMMA, "softcap": True}, _BIAS, defaults={"head_dim": 256}),
    "gemma3_text": _GEMMA3,
    "gemma3": _GEMMA3,
    "phi": ModelFamily(
        {**_GPT, **_WRITTEN, "head_bias": True, "norms": 1, **_HALF}, _TIED, four=True
    ),
    "phi3": ModelFamily({"fused_qkv": True, "fused_gate_up": True, "rotary": "part"}, _TIED),
    "gpt2": ModelFamily(
        {
            **_LEARNED,
            **_WRITTEN,
            **_DROPPED,
            "tied": True,
            "fused_qkv": True,
            "transposed": True,
        },
        _TIED,
        _N,
        four=True,
        learned=0,
    ),
    "gpt_neo": ModelFamily(
        {**_LEARNED, **_WRITTEN, "qkv_bias": False, "tied": True},
        _TIED,
        {"layers": ("num_layers",), "heads": ("num_heads",)},
        four=True,
        learned=0,
    ),
    "gpt_neox": ModelFamily(
        {**_GPT, **_QUARTER, "fused_qkv": True, "parallel": True},
        {**_BIAS, "use_parallel_residual": ("parallel",)},
        four=True,
    ),
    "gpt_bigcode": ModelFamily(
        {**_LEARNED, **_DROPPED, "tied": True, "fused_qkv": True},
        _TIED,
        _N,
        four=True,
        learned=0,
    ),
    "gptj": ModelFamily(_GPTJ, _TIED, _N, four=True),
    "codegen": ModelFamily({**_GPTJ, "fused_qkv": True}, _TIED, _N, four=True),
    "gpt_oss": ModelFamily(
        {
            "sinks": True,
            "clamped_gate": True,
            "scaled_rotation": True,
            "wide_norm": True,
            "qkv_bias": True,
            "out_bias": True,
            "special": "a clamped and shifted gate",
        },
        _BIAS,
        defaults={"head_dim": 64},
        experts={"bias": True, "transposed": True, "router_bias": True},
    ),
    "falcon": ModelFamily(
        {**_PLAIN, "tied": True, "fused_qkv": True},
        {**_TIED, "bias": ("qkv_bias", "out_bias", "mlp_bias")},
        {
            "ffn": ("ffn_hidden_size",),
            "kv_heads": ("num_kv_heads", "n_head_kv", "num_key_value_heads"),
        },
        four=True,
    ),
    "opt": ModelFamily(
        {**_LEARNED, "tied": True, "activation": "relu", "hidden_dropout": True},
        {**_TIED, "enable_bias": ("qkv_bias", "out_bias", "mlp_bias")},
        {"ffn": ("ffn_dim",), "embedding_dim": ("word_embed_proj_dim",)},
        learned=2,
    ),
    "bloom": ModelFamily(
        {**_LEARNED, "tied": True, "fused_qkv": True, "embedding_norm": True},
        _TIED,
        {
            "layers": ("n_layer", "num_hidden_layers"),
            "hidden": ("n_embed", "hidden_size"),
            "heads": ("n_head", "num_attention_heads"),
            "ffn": (),
            "most": ("seq_length",),
        },
        four=True,
    ),
    "mpt": ModelFamily(
        {**_PLAIN, "tied": True, "norm_bias": False, "fused_qkv": True, "rotary": ""},
        _TIED,
        {
            "layers": ("n_layers",),
            "hidden": ("d_model",),
            "heads": ("n_heads",),
            "ffn": (),
            "kv_heads": (),
            "most": ("max_seq_len",),
        },
        four=True,
    ),
    "deepseek": ModelFamily(flags=_BIAS, experts=_NONE),
    "deepseek_v2": _DEEPSEEK,
    "deepseek_v3": _DEEPSEEK,
    "kimi_k2": _DEEPSEEK,
    "glm4_moe_lite": _DEEPSEEK,
    "youtu": _DEEPSEEK._replace(experts=None),
    "minicpm3": _DEEPSEEK._replace(experts=None, has=_GRANITE),
    "olmo": ModelFamily({"norms": 0, "final_norm": False}, _BIAS),
    "olmo2": _OLMO2,
    "olmo3": _OLMO2,
    "olmoe": ModelFamily({"qk_norm": "hidden"}, _BIAS, experts=_NONE),
    "flex_olmo": _OLMO2._replace(experts=_NONE),
    "starcoder2": ModelFamily(
        {**_GPT, "tied": True},
        {**_TIED, "use_bias": ("qkv_bias", "out_bias", "mlp_bias")},
        four=True,
    ),
    "stablelm": ModelFamily(
        {**_QUARTER, "layer_norm": True},
        {**_TIED, "use_qkv_bias": ("qkv_bias",)},
    ),
    "cohere": _COHERE,
    "cohere2": _COHERE,
    "granite": LLAMA._replace(has=_GRANITE),
    "granitemoe": ModelFamily(_GRANITE, _BIAS, experts=_NONE),
    "granitemoeshared": ModelFamily({**_GRANITE, "fused_gate_up": True}, _BIAS, experts=_NONE),
    "smollm3": ModelFamily({"tied": True, "special": "layers without position encoding"}, _BIASES),
    "glm": ModelFamily(
        _GLM, {**_TIED, "attention_bias": ("qkv_bias",)}, defaults={"head_dim": 128}
    ),
    "glm4": ModelFamily(
        {**_GLM, "norms": 4},
        {**_TIED, "attention_bias": ("qkv_bias",)},
        defaults={"head_dim": 128},
    ),
    "glm4_moe": ModelFamily(_HALF, {**_TIED, "attention_bias": ("qkv_bias",)}, experts=_NONE),
    "qwen3_next": _QWEN3_NEXT,
    "qwen3_5": _QWEN3_5,
    "qwen3_5_text": _QWEN3_5,
    "qwen3_5_moe": _QWEN3_5_MOE,
    "qwen3_5_moe_text": _QWEN3_5_MOE,
    "olmo_hybrid": ModelFamily({"qk_norm": "hidden"}, _BIAS),
    "kimi_linear": ModelFamily(_NONE, _BIAS, experts=_NONE, latent=True),
    "lfm2": _LFM2,
    "lfm2_moe": _LFM2._replace(keys=_NONE, experts=_NONE),
    "bamba": ModelFamily(_HALF, _BIASES),
    "falcon_h1": ModelFamily(_NONE, _BIASES),
    "granitemoehybrid": ModelFamily(
        {**_GRANITE, "fused_gate_up": True}, _BIAS, experts=_NONE, fewest_experts=1
    ),
    "jamba": ModelFamily(_NONE, _TIED, experts=_NONE, fewest_experts=2),
    "nemotron_h": ModelFamily(
        {
            "gated": False,
            "norms": 1,
            "wide_norm": True,
            "activation": "squared",
        },
        {**_TIED, "mlp_bias": ("mlp_bias",)},
        defaults={"head_dim": 128},
    ),
    "baichuan": ModelFamily({"fused_qkv": True}, _TIED),
    "internlm2": ModelFamily({"fused_qkv": True}, {**_TIED, "bias": ("qkv_bias", "out_bias")}),
}
"""``model_type`` → how it is built."""
FIXED_HEADS = frozenset(
    (
        *("bloom", "codegen", "falcon", "gpt2", "gpt_bigcode", "gpt_neo", "gpt_neox", "gptj"),
        *("mpt", "opt", "qwen2_5_vl", "qwen2_5_vl_text", "qwen2_vl", "qwen2_vl_text", "stablelm"),
    )
)
"""Types whose attention computes hidden / heads and reads no head_dim (modeling_X.py)."""
