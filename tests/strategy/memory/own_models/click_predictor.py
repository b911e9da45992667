"""A recommender: large embeddings of which a batch needs few, and a small network."""

from __future__ import annotations

import torch
from torch import Tensor, nn

TABLES, ROWS, WIDTH = 6, 4000, 32


class ClickPredictor(nn.Module):
    """Embeddings of a user's features, and whether there is a click."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(ROWS, WIDTH) for _ in range(TABLES))
        self.inner = nn.Sequential(
            nn.Linear(TABLES * WIDTH, 512), nn.ReLU(), nn.Dropout(0.1), nn.Linear(512, 1)
        )

    def forward(self, features: Tensor, clicks: Tensor) -> Tensor:
        """The loss."""
        seen = [table(features[:, i]) for i, table in enumerate(self.tables)]
        out = self.inner(torch.cat(seen, 1)).squeeze(1)
        return nn.functional.binary_cross_entropy_with_logits(out, clicks)


def build_model() -> nn.Module:
    """The model."""
    return ClickPredictor()


def example_batch(micro_batch: int) -> tuple[Tensor, Tensor]:
    """Numbers of features, and clicks."""
    size = 64 * micro_batch
    return torch.randint(ROWS, (size, TABLES)), torch.zeros(size)
