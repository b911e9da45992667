"""What sharding copies within a GPU's memory, by framework."""

from __future__ import annotations

from typing import Any

import pytest

from jobgen.strategy.measured_model import read_measured
from jobgen.strategy.memory.recipes import get_recipe
from jobgen.strategy.setup import Adapters
from jobgen.strategy.spec import Mesh
from jobgen.strategy.speed.copies import count_copied
from jobgen.strategy.speed.rates import SLOWEST, get_memory_rate
from jobgen.strategy.speed.step_time import compute_step
from tests.strategy.speed.setups import A100, AUTOCAST, LLAMA, MIXED, SPARSE, TITAN, setup


@pytest.mark.parametrize(
    ("strategy", "recipe", "forward", "backward"),
    [
        ("ddp", AUTOCAST, 0, 0),
        ("zero1", MIXED, 0, 0),
        # gradients are laid in order and cast to 4 bytes: 4 in bf16, 2 to read and 4 to write
        ("fsdp", AUTOCAST, 0, 4 + 6),
        # each gather is read and written again, and gradients are laid in order and cast at once
        ("fsdp2", AUTOCAST, 4, 4 + 6),
        ("zero2", MIXED, 0, 4),
        ("zero3", MIXED, 4, 4 + 4),
    ],
)
def test_bytes_of_each_parameter(
    strategy: str, recipe: object, forward: int, backward: int
) -> None:
    found = count_copied(setup(strategy, model=LLAMA, recipe=recipe, mesh=Mesh(1, 8)))
    assert found.forward == pytest.approx(forward * LLAMA.count)
    assert found.backward == pytest.approx(backward * LLAMA.count)


@pytest.mark.parametrize(
    ("strategy", "keys", "bytes_"),
    [
        # of four micro-batches the last three are added: two read, one written
        ("ddp", {"recipe": AUTOCAST}, 3 * 4 * 3 / 4),
        ("zero1", {"recipe": MIXED}, 3 * 2 * 3 / 4),
        ("fsdp", {"recipe": AUTOCAST, "unsynced": True}, 4 + 6 + 3 * 4 * 3 / 4),
        ("fsdp", {"recipe": AUTOCAST}, 4 + 6 + 3 * 4 * 3 / 4 / 8),
        # the product that makes them adds them
        ("zero1", {"recipe": get_recipe("main-grads"), "framework": "megatron"}, 0),
        # 2 bytes are added to 4
        ("zero1", {"recipe": get_recipe("two-grads")}, 2 + 4 + 4),
    ],
)
def test_gradients_of_micro_batches_are_added_up(
    strategy: str, keys: dict[str, Any], bytes_: float
) -> None:
    mesh = Mesh(8, 1) if strategy == "ddp" else Mesh(1, 8)
    found = count_copied(setup(strategy, model=LLAMA, mesh=mesh, accumulation=4, **keys))
    assert found.backward == pytest.approx(bytes_ * LLAMA.count)


def test_each_rank_adds_up_the_gradients_of_its_experts() -> None:
    one = setup("zero1", model=SPARSE, mesh=Mesh(1, 8, ep=8), recipe=MIXED, accumulation=4)
    experts = sum(t.count for layer in SPARSE.layers for t in layer.tensors if t.kind == "expert")
    experts *= SPARSE.layers[0].times
    expected = 3 * 2 * 3 / 4 * (SPARSE.count - experts * 7 / 8)
    assert count_copied(one).backward == pytest.approx(expected)


def test_nothing_is_copied_on_one_rank() -> None:
    assert count_copied(setup("fsdp2", model=LLAMA, mesh=Mesh(1, 1))) == (0, 0)


def test_parameters_that_are_kept_are_copied_once_and_frozen_ones_have_no_gradients() -> None:
    kept = setup("fsdp2", model=LLAMA, recipe=AUTOCAST, mesh=Mesh(1, 8), reshard=False)
    assert count_copied(kept).backward == pytest.approx(6 * LLAMA.count)
    frozen = count_copied(kept._replace(adapters=Adapters(8, ())))
    assert frozen.backward < 0.1 * LLAMA.count


def test_a_measured_model_copies_what_is_sharded_too() -> None:
    row = ["product", 2, 10**12, 10**6, 10**6, 1]
    trace = {"mode": "16-bit", "recompute": "none", "kept": 0, "forward": 0, "after": 0}
    costs = {"kinds": [[[row], [row]]], "order": [0]}
    sizes = {"params": LLAMA.count, "trained": LLAMA.count, "width": 4, "buffers": 0, "units": []}
    report = {**sizes, "micro": 2, "traces": [{**trace, "points": [], "costs": costs}]}
    own = setup("fsdp2", recipe=AUTOCAST, measured=read_measured("own", report))
    fast = A100._replace(link=1e15)  # so that nothing is slowed down by what is sent
    alone = compute_step(own._replace(mesh=Mesh(8, 1)), fast).compute
    copied = sum(count_copied(own)) / get_memory_rate(fast)
    assert compute_step(own, fast).compute == pytest.approx(alone + SLOWEST * copied, rel=0.02)


def test_dtensor_lays_sequences_in_order_around_what_tp_sends() -> None:
    one = TITAN
    passed = 2 * 2 * one.tokens * 4096 * 32
    # two gathered and two reduced, forward and backward; those gathered once more, again
    assert count_copied(one) == (4 * passed, 6 * passed)
    # one sample has its sequence in order, and Megatron's sequence comes first
    assert count_copied(one._replace(batch=one.batch._replace(micro=1))) == (0, 0)
    assert count_copied(one._replace(framework="megatron")) == (0, 0)
    # 8-bit operands are gathered in 8 bits
    eight = one._replace(recipe=one.recipe._replace(name="mixed, fp8"))
    assert count_copied(eight) == (3 * passed, 4 * passed)
    # pieces come where they belong, and are summed forward; backward, two reductions lie apart
    assert count_copied(one._replace(overlap_tp=True)) == (passed, 2 * passed)
    rows = eight._replace(recipe=one.recipe._replace(name="mixed, fp8 rowwise"), overlap_tp=True)
    assert count_copied(rows) == (3 * passed, 6 * passed)


def test_torchs_context_parallel_merges_in_fp32() -> None:
    one = setup("ddp", model=LLAMA, mesh=Mesh(1, 1, cp=2), framework="torchtitan", seq=8192)
    queries = one.tokens * 4096 * 32
    assert count_copied(one) == (
        (0.75 * 42 + 4) * queries,
        2 * (11.5 * queries + 2 * 19.5 * queries / 4),
    )
    # compiled, each result and gradient is read once with what is there
    merged = 0.75 * 2 + 8
    compiled = count_copied(one._replace(compiled=True))
    assert compiled == (merged * queries, 2 * merged * (queries + 2 * queries / 4))
    again = count_copied(one._replace(recompute="full"))
    assert again.backward == sum(count_copied(one))
    assert count_copied(one._replace(framework="megatron")) == (0, 0)
