"""A decoder in plain torch, with Llama's layers as transformers writes them, and its training step.

For ``gpu_memory.py``: nothing of it is sharded, and nothing comes from a library above torch.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from jobgen.strategy.shapes import Architecture

ATEN = torch.ops.aten
STEPS = 3
"""The optimizer makes its state in the first; the second peaks with it, the third repeats it."""
KEPT = {
    ATEN.mm.default,
    ATEN._scaled_dot_product_flash_attention.default,
    ATEN._scaled_dot_product_efficient_attention.default,
    ATEN._scaled_dot_product_cudnn_attention.default,
    ATEN._scaled_dot_product_flash_attention_for_cpu.default,
}
"""What selective recompute keeps, of the products every second one: torchtitan,
distributed/activation_checkpoint.py."""


class Norm(nn.Module):
    """RMSNorm, computed in fp32 and weighted in the input's type."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return self.weight * wide.to(x.dtype)


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotated by its position."""
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat((-right, left), -1) * sin


class Layer(nn.Module):
    """Attention and a gated feed-forward layer, each behind a norm."""

    def __init__(self, sizes: Architecture) -> None:
        super().__init__()
        h, d = sizes.hidden, sizes.head_dim
        self.d = d
        self.grouped = sizes.kv_heads < sizes.heads
        linear = partial(nn.Linear, bias=False)
        self.q, self.o = linear(h, sizes.heads * d), linear(sizes.heads * d, h)
        self.k, self.v = linear(h, sizes.kv_heads * d), linear(h, sizes.kv_heads * d)
        self.gate, self.up, self.down = (
            linear(h, sizes.ffn),
            linear(h, sizes.ffn),
            linear(sizes.ffn, h),
        )
        self.before, self.between = Norm(h), Norm(h)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        y = self.before(x)
        q, k, v = (
            one(y).unflatten(-1, (-1, self.d)).transpose(1, 2) for one in (self.q, self.k, self.v)
        )
        q, k = turned(q, cos, sin), turned(k, cos, sin)
        seen = functional.scaled_dot_product_attention(
            q, k, v, is_causal=True, enable_gqa=self.grouped
        )
        x = x + self.o(seen.transpose(1, 2).flatten(2))
        y = self.between(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """The whole model; its forward pass gives the loss."""

    def __init__(self, sizes: Architecture, recompute: str) -> None:
        super().__init__()
        self.recompute = recompute
        self.width = sizes.head_dim
        self.embedding = nn.Embedding(sizes.vocab, sizes.hidden)
        self.layers = nn.ModuleList(Layer(sizes) for _ in range(sizes.layers))
        self.norm = Norm(sizes.hidden)
        self.head = nn.Linear(sizes.hidden, sizes.vocab, bias=False)

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        x = self.embedding(tokens)
        cos, sin = self._angles(tokens.shape[1], x)
        for layer in self.layers:
            x = self._layer(layer, x, cos, sin)
        logits = self.head(self.norm(x)).flatten(0, 1).float()
        return functional.cross_entropy(logits, labels.flatten())

    def _layer(self, layer: nn.Module, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        if self.recompute == "none":
            return layer(x, cos, sin)
        more: dict[str, Any] = {"context_fn": _kept} if self.recompute == "selective" else {}
        return checkpoint(layer, x, cos, sin, use_reentrant=False, **more)

    def _angles(self, length: int, like: Tensor) -> tuple[Tensor, Tensor]:
        half = torch.arange(0, self.width, 2, device=like.device) / self.width
        angles = torch.outer(torch.arange(length, device=like.device), 10000.0**-half)
        both = torch.cat((angles, angles), -1)
        on = like.device.type
        kind = torch.get_autocast_dtype(on) if torch.is_autocast_enabled(on) else like.dtype
        return both.cos().to(kind), both.sin().to(kind)


def _kept() -> Any:
    """The policy for one layer: each call counts its products anew."""
    products: dict[bool, int] = defaultdict(int)

    def policy(ctx: Any, op: Any, *_: object, **__: object) -> CheckpointPolicy:
        if op == ATEN.mm.default:
            products[ctx.is_recompute] += 1
            if products[ctx.is_recompute] % 2 == 0:
                return CheckpointPolicy.PREFER_RECOMPUTE
        return CheckpointPolicy.MUST_SAVE if op in KEPT else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def train(
    sizes: Architecture,
    *,
    recompute: str,
    pure: bool,
    fused: bool,
    shape: tuple[int, int],
    device: str = "cuda",
) -> list[float]:
    """The losses of some steps on random tokens; ``shape`` is samples and tokens of each."""
    torch.manual_seed(1)
    with torch.device(device):
        model = Decoder(sizes, recompute)
        data = torch.randint(sizes.vocab, (2, *shape))
    if pure:
        model.to(torch.bfloat16)
    adamw = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=fused, foreach=not fused)
    losses = []
    for _ in range(STEPS):
        with torch.autocast(device, torch.bfloat16, enabled=not pure):
            loss = model(data[0], data[1])
        loss.backward()
        adamw.step()
        adamw.zero_grad(set_to_none=True)
        losses.append(loss.item())
    return losses
