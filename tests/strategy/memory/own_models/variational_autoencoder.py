"""A variational autoencoder, with noise that is drawn in the forward pass."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Autoencoder(nn.Module):
    """Images through a narrow place and back."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, 32, 4, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 4, 2, 1), nn.ReLU()
        )
        self.mean, self.spread = (nn.Linear(64 * 8 * 8, 32) for _ in range(2))
        self.back = nn.Linear(32, 64 * 8 * 8)
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(32, 3, 4, 2, 1)
        )

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        """The loss among other results."""
        seen = self.encoder(images).flatten(1)
        mean, spread = self.mean(seen), self.spread(seen)
        code = mean + torch.randn_like(mean) * torch.exp(0.5 * spread)
        again = self.decoder(self.back(code).unflatten(1, (64, 8, 8)))
        kl = -0.5 * torch.mean(1 + spread - mean**2 - spread.exp())
        return {"loss": nn.functional.mse_loss(again, images) + kl, "code": code}


def build_model() -> nn.Module:
    """The model."""
    return Autoencoder()


def example_batch(micro_batch: int) -> tuple[Tensor]:
    """Images."""
    return (torch.randn(8 * micro_batch, 3, 32, 32),)
