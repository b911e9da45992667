"""How often attention without a fused kernel reads and writes its scores, as JSON.

Operations that reach torch's dispatcher, in units of all scores in 16 bits, for one layer.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

HEADS, TOKENS, WIDTH = 4, 48, 16
SCORES = HEADS * TOKENS * TOKENS


class ScoreCounter(TorchDispatchMode):
    """Adds up the bytes of tensors that have as many elements as all scores."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Count what this operation reads and writes."""
        out = func(*args, **(kwargs or {}))
        aliases = (each.alias_info for each in func._schema.returns)
        if any(alias is not None and not alias.is_write for alias in aliases):
            return out
        if not func._schema.name.endswith(("detach", "_unsafe_view")):
            self.bytes += sum(map(measure, tree_leaves((args, kwargs, out))))
        return out


def measure(value: object) -> int:
    """Bytes of a tensor of scores; 0 of anything else."""
    if isinstance(value, Tensor) and value.numel() == SCORES:
        return value.numel() * value.element_size()
    return 0


def build_llama(dtype: torch.dtype) -> Callable[[], Tensor]:
    """The loss of transformers' Llama of one layer."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=HEADS * WIDTH,
        intermediate_size=2 * HEADS * WIDTH,
        num_hidden_layers=1,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        vocab_size=32,
        attn_implementation="eager",
    )
    model = LlamaForCausalLM(config).to(dtype).train()
    words = torch.randint(0, 32, (1, TOKENS))
    return lambda: model(input_ids=words, labels=words).loss


def attend_sloped(dtype: torch.dtype) -> Callable[[], Tensor]:
    """The operations of Baichuan2-13B's attention, whose mask has the slopes of ALiBi in it."""
    queries, keys, values = (
        torch.randn(1, HEADS, TOKENS, WIDTH, dtype=dtype, requires_grad=True) for _ in range(3)
    )
    mask = torch.randn(HEADS, TOKENS, TOKENS, dtype=dtype)

    def attend() -> Tensor:
        scores = torch.matmul(queries, keys.transpose(2, 3)) / WIDTH**0.5
        scores = torch.max(scores + mask, torch.tensor(torch.finfo(dtype).min))
        return torch.matmul(torch.softmax(scores, dim=-1), values).sum()

    return attend


def count(run: Callable[[], Tensor], width: int) -> list[float]:
    """Forward and backward."""
    with ScoreCounter() as ahead:
        loss = run()
    with ScoreCounter() as back:
        loss.backward()
    return [each.bytes / SCORES / width for each in (ahead, back)]


if __name__ == "__main__":
    found = {
        "plain": count(build_llama(torch.float32), 4),
        "cast": count(build_llama(torch.bfloat16), 2),
        "sloped": count(attend_sloped(torch.bfloat16), 2),
    }
    print(json.dumps(found))
