"""Keys of a config.json of the Hub that hold the sizes of a transformer."""

from __future__ import annotations

from collections.abc import Mapping

Keys = Mapping[str, tuple[str, ...]]

KEYS: Keys = {
    "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model", "n_embed"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num"),
    "head_dim": ("head_dim",),
    "ffn": ("intermediate_size", "n_inner", "ffn_dim", "d_ff"),
    "vocab": ("vocab_size", "padded_vocab_size"),
    "most": ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx"),
}
"""Size → its keys in a config.json, the first that is there."""

EXPERTS: Keys = {
    "count": ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"),
    "active": ("num_experts_per_tok", "num_experts_per_token", "moe_top_k", "moe_k"),
    "ffn": ("moe_intermediate_size",),
    "dense_layers": ("first_k_dense_replace", "moe_layer_start_index"),
    "every": ("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval"),
    "shared": ("n_shared_experts", "moe_num_shared_experts", "num_shared_experts"),
    "shared_ffn": ("shared_expert_intermediate_size", "shared_intermediate_size"),
}
LATENT: Keys = {
    "q_rank": ("q_lora_rank",),
    "kv_rank": ("kv_lora_rank",),
    "nope_dim": ("qk_nope_head_dim",),
    "rope_dim": ("qk_rope_head_dim",),
    "v_dim": ("v_head_dim",),
}
DROPOUT: Keys = {
    "hidden_dropout": (
        "resid_pdrop",
        "resid_dropout",
        "residual_dropout",
        "hidden_dropout",
        "dropout",
    ),
    "attention_dropout": ("attn_pdrop", "attention_dropout"),
}
"""Field of Architecture → keys of the probability in a config.json."""
CONSTANTS: Keys = {
    "norm_epsilon": ("rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps"),
    "balance_loss": ("router_aux_loss_coef", "aux_loss_alpha"),
}
"""Field of Architecture → keys of a number that sizes nothing."""
