"""An encoder and decoder of transformers, whose decoder keeps keys and values in a cache."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import T5Config, T5ForConditionalGeneration

WORDS = 1000


def build_model() -> nn.Module:
    """The model."""
    sizes = T5Config(
        vocab_size=WORDS,
        d_model=128,
        d_kv=32,
        d_ff=512,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
    )
    return T5ForConditionalGeneration(sizes)


def example_batch(micro_batch: int) -> dict[str, Tensor]:
    """Sentences and their translations."""
    return {
        "input_ids": torch.randint(3, WORDS, (micro_batch, 64)),
        "labels": torch.randint(3, WORDS, (micro_batch, 32)),
    }
