"""Experts of which every token passes all, weighted: no size depends on the data."""

from __future__ import annotations

import torch
from torch import Tensor, nn

WIDTH, EXPERTS, WORDS = 96, 4, 1000


class Experts(nn.Module):
    """A mixture of feed-forward layers."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS)
        self.up = nn.Parameter(torch.randn(EXPERTS, WIDTH, 2 * WIDTH))
        self.down = nn.Parameter(torch.randn(EXPERTS, 2 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        """A residual step."""
        weights = self.router(x).softmax(-1)
        inner = torch.relu(torch.einsum("bsd,edf->bsef", x, self.up))
        each = torch.einsum("bsef,efd->bsed", inner, self.down)
        return x + (each * weights.unsqueeze(-1)).sum(2)


def build_model() -> nn.Module:
    """The model: what it returns are scores, not a loss."""
    layers = (Experts() for _ in range(3))
    return nn.Sequential(nn.Embedding(WORDS, WIDTH), *layers, nn.Linear(WIDTH, WORDS))


def example_batch(micro_batch: int) -> list[Tensor]:
    """Words."""
    return [torch.randint(WORDS, (micro_batch, 64))]
