"""How many inputs of a frozen matrix are there while a loop of forward and backward passes runs,
where a function keeps them as bitsandbytes before 0.43.2 does: one line of JSON for each loop."""

from __future__ import annotations

import json
import weakref
from typing import Any

import torch

STEPS, LAYERS = 3, 4


class Product(torch.autograd.Function):
    """A product with a frozen matrix, whose input lies in an attribute of the graph."""

    @staticmethod
    def forward(ctx: Any, given: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.tensors = (given, weight)
        return given @ weight

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        return grads[0] @ ctx.tensors[1].t(), None


def count(holds: bool) -> dict[str, Any]:
    """Inputs that are alive when a forward pass ends and when a backward pass has ended."""
    frozen = [torch.ones(2, 2) for _ in range(LAYERS)]
    adapter = torch.ones(2, requires_grad=True)
    inputs: list[weakref.ref[torch.Tensor]] = []

    def compute() -> torch.Tensor:
        stream = torch.ones(2, 2) * adapter
        for weight in frozen:
            inputs.append(weakref.ref(stream))
            stream = Product.apply(stream, weight)
        ahead.append(sum(each() is not None for each in inputs))
        return stream

    ahead: list[int] = []
    behind: list[int] = []
    for _ in range(STEPS):
        logits = compute()
        logits.sum().backward()
        behind.append(sum(each() is not None for each in inputs))
        if not holds:
            del logits
    return {"holds": holds, "forward": ahead[-1] / LAYERS, "backward": behind[-1] / LAYERS}


for kept in (True, False):
    print(json.dumps(count(kept)))
