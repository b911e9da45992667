"""A decoder of one's own, whose output layer shares the embedding."""

from __future__ import annotations

import torch
from torch import Tensor, nn

WIDTH, HEADS, LAYERS, WORDS, LENGTH = 128, 4, 3, 2000, 128


class Layer(nn.Module):
    """Causal attention and a gated feed-forward layer."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.behind = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.gate, self.up = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, 3 * WIDTH)
        self.down = nn.Linear(3 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """A residual step."""
        heads = self.qkv(self.before(x)).unflatten(2, (3, HEADS, -1)).transpose(1, 3)
        q, k, v = heads.unbind(2)
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        y = self.behind(x)
        out: Tensor = x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        return out


class Decoder(nn.Module):
    """Words to words."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.embed.weight

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
