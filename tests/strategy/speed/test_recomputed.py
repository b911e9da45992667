"""What torch's checkpoint computes again."""

from __future__ import annotations

from typing import Any

import pytest

from jobgen.strategy.setup import Adapters
from jobgen.strategy.speed.step_time import compute_step
from tests.strategy.speed.setups import A100, LLAMA, setup


def count_products(*, reentrant: bool) -> int:
    """Products in the backward pass of two checkpointed linear layers."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.checkpoint import checkpoint

    class Products(TorchDispatchMode):
        seen = 0

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            self.seen += func in {torch.ops.aten.mm.default, torch.ops.aten.addmm.default}
            return func(*args, **(kwargs or {}))

    layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8))
    loss = checkpoint(layers, torch.ones(4, 8, requires_grad=True), use_reentrant=reentrant).sum()
    with Products() as products:
        loss.backward()
    return products.seen


@pytest.mark.train("torch")
def test_torch_stops_before_the_last_product_unless_it_is_reentrant() -> None:
    gradients = 4
    assert count_products(reentrant=True) == gradients + 2
    assert count_products(reentrant=False) == gradients + 1


def compute_full(**keys: Any) -> float:
    asked = setup("fsdp2", model=LLAMA, seq=4096, recompute="full", **keys)
    return compute_step(asked, A100).compute


def test_the_last_product_is_computed_again_by_those_that_do_not_stop() -> None:
    stopping = compute_full()
    assert 0.9 < stopping / compute_full(reentrant=True) < 0.96
    assert compute_full(framework="deepspeed") == pytest.approx(compute_full(reentrant=True))


def test_an_adapter_beside_the_last_product_lets_it_be_computed_again() -> None:
    adapters = Adapters(8, ())
    assert compute_full(adapters=adapters) == compute_full(adapters=adapters, reentrant=True)
