"""A UNet that learns the noise of images, and recomputes its blocks itself."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

WIDTHS = (16, 32, 64)


class WideNorm(nn.GroupNorm):
    """A group norm in fp32, as diffusion models have it."""

    def forward(self, x: Tensor) -> Tensor:
        """The normalized input, in its own type."""
        return super().forward(x.float()).to(x.dtype)


class Residual(nn.Module):
    """Two convolutions with the time added between them."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.first, self.second = (
            nn.Sequential(WideNorm(8, width), nn.SiLU(), nn.Conv2d(width, outside, 3, 1, 1))
            for width in (inside, outside)
        )
        self.time = nn.Linear(64, outside)
        self.skip = nn.Conv2d(inside, outside, 1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """A residual step."""
        y = self.first(x) + self.time(time)[:, :, None, None]
        out: Tensor = self.skip(x) + self.second(y)
        return out


class Unet(nn.Module):
    """Down, and up again with what was seen on the way."""

    def __init__(self) -> None:
        super().__init__()
        pairs = list(zip((WIDTHS[0], *WIDTHS), WIDTHS, strict=False))
        self.first = nn.Conv2d(3, WIDTHS[0], 3, 1, 1)
        self.down = nn.ModuleList(Residual(a, b) for a, b in pairs)
        self.up = nn.ModuleList(Residual(2 * b, a) for a, b in reversed(pairs))
        self.last = nn.Conv2d(WIDTHS[0], 3, 3, 1, 1)

    def forward(self, noisy: Tensor, time: Tensor, noise: Tensor) -> Tensor:
        """The loss."""
        x, seen = self.first(noisy), []
        for block in self.down:
            x = checkpoint(block, x, time, use_reentrant=False)
            seen.append(x)
            x = nn.functional.avg_pool2d(x, 2)
        for block in self.up:
            x = nn.functional.interpolate(x, scale_factor=2.0)
            x = checkpoint(block, torch.cat([x, seen.pop()], 1), time, use_reentrant=False)
        return nn.functional.mse_loss(self.last(x), noise)


def build_model() -> nn.Module:
    """The model."""
    return Unet()


def example_batch(micro_batch: int) -> tuple[Tensor, Tensor, Tensor]:
    """Noisy images, their times, and the noise."""
    images = torch.randn(micro_batch, 3, 64, 64)
    return images, torch.randn(micro_batch, 64), torch.randn_like(images)
