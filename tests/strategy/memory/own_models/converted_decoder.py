"""A decoder of transformers in 16 bits, with fp32 adapters and a mask that masks nothing."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

WORDS, LENGTH, RANK = 1000, 128, 8


class Adapted(nn.Module):
    """A layer, and what is learned beside it."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base
        self.down = nn.Linear(base.in_features, RANK, bias=False)
        self.up = nn.Linear(RANK, base.out_features, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The sum of both."""
        added: Tensor = self.base(x) + self.up(self.down(x.float())).to(x.dtype)
        return added


def build_model() -> nn.Module:
    """The model, of which only the adapters are trained."""
    sizes = LlamaConfig(
        vocab_size=WORDS,
        hidden_size=128,
        intermediate_size=344,
        num_hidden_layers=3,
        num_attention_heads=8,
        num_key_value_heads=2,
    )
    model = LlamaForCausalLM(sizes).to(torch.bfloat16)
    model.requires_grad_(requires_grad=False)
    for layer in model.model.layers:
        layer.self_attn.q_proj = Adapted(layer.self_attn.q_proj)
    return model


def example_batch(micro_batch: int) -> dict[str, Tensor]:
    """Sequences without padding."""
    words = torch.randint(WORDS, (micro_batch, LENGTH))
    return {"input_ids": words, "attention_mask": torch.ones_like(words), "labels": words}
