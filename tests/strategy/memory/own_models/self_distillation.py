"""A vision transformer that learns from a copy of itself: layers are copied, and rates are read."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional

WIDTH, LAYERS, SIDE, CLASSES = 96, 4, 64, 512


class Encoder(nn.Module):
    """Patches, layers that are now and then skipped, and scores."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 8, 8)
        self.places = nn.Parameter(torch.zeros(1, (SIDE // 8) ** 2, WIDTH))
        nn.init.trunc_normal_(self.places, std=0.02)
        self.rates = [rate.item() for rate in torch.linspace(0, 0.1, LAYERS)]
        layer = nn.TransformerEncoderLayer(WIDTH, 3, 4 * WIDTH, 0.1, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, LAYERS)
        self.scores = nn.Linear(WIDTH, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        """Scores of each image."""
        x = self.patches(images).flatten(2).transpose(1, 2) + self.places
        scores: Tensor = self.scores(self.layers(x).mean(1))
        return scores


class Distillation(nn.Module):
    """The student, and a teacher that is not trained."""

    def __init__(self) -> None:
        super().__init__()
        self.student = Encoder()
        self.teacher = copy.deepcopy(self.student).requires_grad_(requires_grad=False)
        self.register_buffer("center", torch.zeros(1, CLASSES))

    def forward(self, images: Tensor, others: Tensor) -> dict[str, Tensor]:
        """The loss, by another name."""
        with torch.no_grad():
            target = functional.softmax((self.teacher(images) - self.center) / 0.04, -1)
            self.center.mul_(0.9).add_(target.mean(0, keepdim=True), alpha=0.1)
        logs = functional.log_softmax(self.student(others) / 0.1, -1)
        return {"distillation": -(target * logs).sum(-1).mean()}


def build_model() -> nn.Module:
    """The model, where it is trained."""
    return Distillation().to("cuda" if torch.cuda.is_available() else "cpu")


def example_batch(micro_batch: int) -> tuple[Tensor, Tensor]:
    """Two views of each image."""
    size = micro_batch, 3, SIDE, SIDE
    return torch.randn(size), torch.randn(size)
