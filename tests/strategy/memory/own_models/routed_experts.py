"""A mixture of experts of transformers, whose tokens pass two of them in grouped products."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

WORDS, LENGTH = 1000, 64


def build_model() -> nn.Module:
    """The model."""
    sizes = Qwen3MoeConfig(
        vocab_size=WORDS,
        hidden_size=128,
        moe_intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        num_experts=8,
        num_experts_per_tok=2,
    )
    return Qwen3MoeForCausalLM(sizes)


def example_batch(micro_batch: int) -> dict[str, Tensor]:
    """Words."""
    words = torch.randint(WORDS, (micro_batch, LENGTH))
    return {"input_ids": words, "labels": words}
