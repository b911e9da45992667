"""A T5 of transformers by its configuration, which is no decoder alone."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import T5Config, T5ForConditionalGeneration


def build_model() -> nn.Module:
    """The model, without weights of a file."""
    config = T5Config(
        vocab_size=1200,
        d_model=96,
        d_kv=24,
        d_ff=256,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
        use_cache=False,
    )
    return T5ForConditionalGeneration(config)


def example_batch(micro_batch: int) -> dict[str, Tensor]:
    """Words to read, and words to write."""
    words = torch.randint(1200, (micro_batch, 64))
    return {"input_ids": words, "labels": words.clone()}
