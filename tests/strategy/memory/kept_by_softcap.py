"""Bytes of one score that autograd keeps of attention with a softcap in single operations, as
litgpt's ``scaled_dot_product_attention`` has it; and of one logit, of the softcap of logits: one
line of JSON."""

from __future__ import annotations

import json

import torch
from torch import Tensor

TOKENS, WIDTH, VOCAB = 96, 8, 50
kept: dict[int, Tensor] = {}


def keep(saved: Tensor) -> Tensor:
    """Note what is saved, each memory once."""
    kept[saved.untyped_storage().data_ptr()] = saved
    return saved


def weigh(elements: int) -> float:
    """Bytes of one element of all that was saved and has so many."""
    return sum(t.untyped_storage().nbytes() for t in kept.values() if t.numel() == elements) / (
        elements
    )


def cap(scores: Tensor) -> Tensor:
    """The softcap of Gemma-2."""
    return torch.tanh(scores / 50.0) * 50.0


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention of one head."""
    scores = cap(q @ k.mT * 0.1)
    mask = torch.ones(TOKENS, TOKENS, dtype=q.dtype).triu(diagonal=1)
    mask.masked_fill_(mask.bool(), torch.finfo(q.dtype).min)
    return torch.softmax(scores + mask, dim=-1, dtype=torch.float).to(q.dtype) @ v


q, k, v = (torch.randn(TOKENS, WIDTH, dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
head = torch.randn(VOCAB, WIDTH, dtype=torch.bfloat16)
with torch.autograd.graph.saved_tensors_hooks(keep, lambda saved: saved):
    out = attend(q, k, v)
    score = weigh(TOKENS * TOKENS)
    logits = cap(out @ head.mT).float()
print(json.dumps({"score": score, "logit": weigh(TOKENS * VOCAB)}))
