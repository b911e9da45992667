"""A vision transformer that is recomputed by nobody."""

from __future__ import annotations

import torch
from torch import Tensor, nn

WIDTH, LAYERS, PATCH, SIZE, CLASSES = 96, 4, 16, 128, 100


class Block(nn.Module):
    """Attention and a feed-forward layer."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.behind = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.inner = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor) -> Tensor:
        """A residual step."""
        y = self.before(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        out: Tensor = x + self.inner(self.behind(x))
        return out


class VisionTransformer(nn.Module):
    """Patches, blocks, and the loss of a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.positions = nn.Parameter(torch.zeros(1, (SIZE // PATCH) ** 2, WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        """The loss."""
        x = self.patches(images).flatten(2).transpose(1, 2) + self.positions
        for block in self.blocks:
            x = block(x)
        return nn.functional.cross_entropy(self.head(x.mean(1)), labels)


def build_model() -> nn.Module:
    """The model."""
    return VisionTransformer()


def example_batch(micro_batch: int) -> dict[str, Tensor]:
    """Images and their labels."""
    labels = torch.zeros(micro_batch, dtype=torch.long)
    return {"images": torch.randn(micro_batch, 3, SIZE, SIZE), "labels": labels}
