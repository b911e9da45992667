"""A convolutional classifier with batch norms, whose statistics are buffers."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Block(nn.Module):
    """Two convolutions around which the input goes."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(width, width, 3, 1, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, 1, 1, bias=False),
            nn.BatchNorm2d(width),
        )

    def forward(self, x: Tensor) -> Tensor:
        """A residual step."""
        return torch.relu(x + self.inner(x))


def build_model() -> nn.Module:
    """A sequence of blocks, without a list of layers."""
    return nn.Sequential(
        nn.Conv2d(3, 48, 7, 2, 3),
        *(Block(48) for _ in range(3)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(48, 1000),
    )


def example_batch() -> Tensor:
    """Images: the mean of the output stands for a loss."""
    return torch.randn(16, 3, 64, 64)
