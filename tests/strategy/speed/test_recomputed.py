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


def count_compiled_products(*, within: bool) -> int:
    """Products that a checkpointed block's backward pass runs, compiled together with its
    checkpoint or called by it as compiled."""
    import torch
    from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
    from torch._dynamo.backends.common import aot_autograd
    from torch.utils.checkpoint import checkpoint

    seen = 0

    def count(graph: Any, inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            nonlocal seen
            seen += sum(
                node.target in {torch.ops.aten.mm.default, torch.ops.aten.addmm.default}
                for node in graph.graph.nodes
            )
            return graph(*args)

        return make_boxed_func(run)

    torch._dynamo.reset()
    parts = min_cut_rematerialization_partition
    backend = aot_autograd(fw_compiler=count, bw_compiler=count, partition_fn=parts)
    compile_ = torch.compile(backend=backend)
    block = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8))

    def call(layer: Any, given: Any) -> Any:
        return checkpoint(layer, given, use_reentrant=False, early_stop=within)

    given = torch.ones(4, 8, requires_grad=True)
    loss = (call(compile_(block), given) if within else compile_(call)(block, given)).sum()
    seen = 0
    loss.backward()
    return seen


def test_a_compiled_backward_pass_leaves_the_last_product_out() -> None:
    gradients = 4
    assert count_compiled_products(within=False) == gradients + 1
    assert count_compiled_products(within=True) == gradients + 2


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


def test_compiled_code_needs_no_last_product_even_beside_an_adapter() -> None:
    whole = compute_full(compiled=True, framework="torchtune")
    assert 0.9 < compute_full(compiled=True) / whole < 0.96
    lora = Adapters(8, ())
    whole = compute_full(compiled=True, framework="torchtune", adapters=lora)
    assert compute_full(compiled=True, adapters=lora) < 0.95 * whole
    assert compute_full(compiled=True, framework="deepspeed") > compute_full(compiled=True)


def test_blocks_that_are_checkpointed_apart_have_an_end_each() -> None:
    assert compute_full(framework="automodel") < compute_full()
