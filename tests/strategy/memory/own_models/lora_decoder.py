"""A frozen decoder in 16 bits with trained low-rank adapters in fp32, written by hand."""

from __future__ import annotations

import torch
from torch import Tensor, nn

WIDTH, HEADS, LAYERS, WORDS, LENGTH, RANK = 128, 4, 4, 500, 128, 8


class Adapted(nn.Module):
    """A frozen matrix, and beside it two thin ones that are trained."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.base = nn.Linear(inner, outer, bias=False, dtype=torch.bfloat16)
        self.base.requires_grad_(requires_grad=False)
        self.down, self.up = nn.Linear(inner, RANK, bias=False), nn.Linear(RANK, outer, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The sum of both."""
        added: Tensor = self.up(self.down(x.float()))
        return self.base(x.to(self.base.weight.dtype)) + added.to(self.base.weight.dtype)


class Layer(nn.Module):
    """Causal attention and a feed-forward layer."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.behind = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.qkv, self.out = Adapted(WIDTH, 3 * WIDTH), Adapted(WIDTH, WIDTH)
        self.wide, self.narrow = Adapted(WIDTH, 4 * WIDTH), Adapted(4 * WIDTH, WIDTH)
        for norm in (self.before, self.behind):
            norm.weight.requires_grad_(requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """A residual step."""
        heads = self.qkv(self.before(x)).unflatten(2, (3, HEADS, -1)).transpose(1, 3)
        q, k, v = heads.unbind(2)
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        out: Tensor = x + self.narrow(nn.functional.gelu(self.wide(self.behind(x))))
        return out


class Decoder(nn.Module):
    """Words to words."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        for frozen in (self.embed, self.norm, self.head):
            frozen.requires_grad_(requires_grad=False)

    def forward(self, words: Tensor) -> Tensor:
        """The loss."""
        x = self.embed(words)
        for layer in self.layers:
            x = layer(x)
        scores = self.head(self.norm(x))[:, :-1]
        return nn.functional.cross_entropy(scores.flatten(0, 1), words[:, 1:].flatten())


def build_model() -> nn.Module:
    """The model."""
    return Decoder()


def example_batch(micro_batch: int, seq_len: int = LENGTH) -> Tensor:
    """Words."""
    return torch.randint(WORDS, (micro_batch, seq_len))
