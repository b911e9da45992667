"""Trains a vision transformer on made-up images under FSDP2."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

WIDTH, LAYERS, HEADS, PATCH, SIZE, CLASSES = 1024, 24, 16, 16, 224, 1000


class Block(nn.Module):
    """Attention and a feed-forward layer."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """A residual step."""
        y = self.norms[0](x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        out: Tensor = x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))
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
    """The model, as it is trained."""
    return VisionTransformer()


def example_batch(micro_batch: int) -> dict[str, Tensor]:
    """One micro-batch: what the model is called with."""
    images = torch.randn(micro_batch, 3, SIZE, SIZE)
    return {"images": images, "labels": torch.randint(CLASSES, (micro_batch,))}


def main() -> None:
    """A few steps."""
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo")
    device = torch.device("cuda" if cuda else "cpu", int(os.environ["LOCAL_RANK"]) if cuda else 0)
    torch.set_default_device(device)
    model = build_model()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.get_submodule("blocks").children():
        fully_shard(block, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(int(os.environ.get("STEPS", "10"))):
        loss = model(**example_batch(8))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if dist.get_rank() == 0:
            print(f"step {step + 1} loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
