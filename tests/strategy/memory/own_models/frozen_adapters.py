"""A frozen encoder of torch's, with trained adapters behind each layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

WIDTH, LAYERS = 128, 3


class Adapted(nn.Module):
    """A frozen layer and a narrow trained one."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, batch_first=True)
        self.layer.requires_grad_(requires_grad=False)
        self.down, self.up = nn.Linear(WIDTH, 8), nn.Linear(8, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """A residual step."""
        x = self.layer(x)
        out: Tensor = x + self.up(torch.relu(self.down(x)))
        return out


class Classifier(nn.Module):
    """Layers and a trained head."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Adapted() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, series: Tensor, labels: Tensor) -> Tensor:
        """The loss."""
        for layer in self.layers:
            series = layer(series)
        return nn.functional.cross_entropy(self.head(series.mean(1)), labels)


def build_model() -> nn.Module:
    """The model."""
    return Classifier()


def example_batch(micro_batch: int) -> dict[str, Tensor]:
    """Series of measurements, and their labels."""
    labels = torch.zeros(micro_batch, dtype=torch.long)
    return {"series": torch.randn(micro_batch, 100, WIDTH), "labels": labels}
