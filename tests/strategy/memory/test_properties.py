"""What must hold of any setup's memory."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from jobgen.strategy.estimate import FRAGMENTED, GIB, GpuMemory, Metric
from jobgen.strategy.memory import estimate, list_moments
from jobgen.strategy.memory.activations import compute_kept
from jobgen.strategy.memory.memory_states import divide_states, list_stages
from jobgen.strategy.memory.outside import compute_node_memory
from jobgen.strategy.memory.recipes import get_recipe
from jobgen.strategy.setup import Adapters, Setup
from jobgen.strategy.spec import TRAITS, Batch, Mesh, Offloaded
from tests.strategy.memory.setups import MODELS, setups

ALMOST = 1 + 1e-9
"""Sums of floats."""
BESIDE = ("context", "cache")
"""Components that are not allocated by torch."""
METRICS: tuple[Metric, ...] = ("allocated", "reserved", "nvidia-smi")


@given(setups(shard=2), st.integers(1, 6))
def test_more_ranks_never_need_more_of_each(few: Setup, doublings: int) -> None:
    ranks = 2 << doublings
    split = TRAITS[few.strategy].stage > 0
    mesh = few.mesh._replace(shard=ranks) if split else few.mesh._replace(replicate=ranks)
    many = few._replace(mesh=mesh, batch=few.batch._replace(ranks=ranks))
    assert estimate(many).nvidia_smi <= estimate(few).nvidia_smi * ALMOST


@given(setups(), st.integers(1, 9))
def test_a_larger_micro_batch_never_needs_less(small: Setup, more: int) -> None:
    large = small._replace(batch=small.batch._replace(micro=small.batch.micro + more))
    assert _no_less(estimate(large), estimate(small))


@given(setups(), st.integers(1, 5000))
def test_a_longer_sequence_never_needs_less(short: Setup, more: int) -> None:
    assert _no_less(estimate(short._replace(seq=short.seq + more)), estimate(short))


def _no_less(large: GpuMemory, small: GpuMemory) -> bool:
    return large.nvidia_smi * ALMOST >= small.nvidia_smi and (
        large.get_peak("reserved") * ALMOST >= small.get_peak("reserved")
    )


@given(setups())
def test_components_are_all_there_is(setup: Setup) -> None:
    memory = estimate(setup)
    assert all(component.bytes >= 0 for component in memory.components)
    assert memory.nvidia_smi == sum(component.bytes for component in memory.components)
    assert memory.get_peak("allocated") <= memory.get_peak("reserved") <= memory.nvidia_smi
    assert memory.low < memory.nvidia_smi < memory.high


@given(setups(), st.floats(1, 200))
def test_the_parts_add_up_to_what_is_allocated_and_needed(setup: Setup, gib: float) -> None:
    memory, limit = estimate(setup), gib * GIB
    beside = {part.name: part.bytes for part in memory.components if part.name in BESIDE}
    torch = sum(part.bytes for part in memory.components if part.name not in BESIDE)
    allocated = max(parts.allocated for _, parts in list_moments(setup))
    assert torch == pytest.approx(allocated)
    assert memory.needed == pytest.approx(FRAGMENTED * torch + beside["context"])
    assert memory.needed <= memory.nvidia_smi * ALMOST
    assert (memory.needed <= limit) == (memory.judge(limit) != "no")


def test_gradients_that_are_freed_are_cache_and_not_allocated() -> None:
    """FSDP2's gradients lie in a pool of their own while the next forward pass runs."""
    setup = Setup(MODELS[0], "fsdp2", Mesh(1, 8), Batch(2, 1, 8), 8192, get_recipe("mixed"))
    memory = estimate(setup)
    sizes = {part.name: part.bytes for part in memory.components}
    (states,) = (divide_states(setup, stage) for stage in list_stages(setup))
    assert (memory.moment, sizes["grads"]) == ("forward", 0.0)
    assert sizes["cache"] > states.grads
    several = setup._replace(batch=Batch(2, 4, 8))
    assert {part.name: part.bytes for part in estimate(several).components}["grads"] > 0


TWO_PEAKS = Setup(
    MODELS[0],
    "ddp",
    Mesh(1, 1),
    Batch(2, 1, 1),
    512,
    get_recipe("fp32"),
    recompute="selective",
    flash=False,
    loose=True,
    adapters=Adapters(16, (), bits=4),
    keeps_full_copy=True,
)
"""Most is reserved while the loss is computed, for lengths vary; most is allocated at the load."""


def test_each_metric_has_the_peak_of_its_own() -> None:
    """As torch counts: max_memory_allocated and max_memory_reserved know nothing of each other."""
    load = estimate(TWO_PEAKS._replace(loose=False))
    forward = estimate(TWO_PEAKS)
    assert load.moment == forward.moment == "load"
    assert forward.get_peak("allocated") == load.get_peak("allocated")
    assert forward.get_peak("reserved") > load.get_peak("reserved")
    for memory in (load, forward):
        assert memory.scale(2).get_peak("allocated") == 2 * memory.get_peak("allocated")


@given(setups(), st.booleans(), st.sampled_from(("cpu", "nvme")))
@example(setup=TWO_PEAKS, params=True, to="cpu")
@example(setup=TWO_PEAKS, params=False, to="cpu")
def test_offloading_moves_states_and_loses_none(
    setup: Setup, params: bool, to: Literal["cpu", "nvme"]
) -> None:
    setup = setup._replace(step_in_backward=False)
    away = setup._replace(offload=Offloaded(optimizer=True, params=params, to=to))
    ranks = min(setup.world_per_node, setup.mesh.world)
    outside = compute_node_memory(away)
    largest = max(list_stages(setup), key=lambda stage: divide_states(setup, stage).total)
    before, after = divide_states(setup, largest), divide_states(away, largest)
    for kind in ("params", "master", "moments"):
        here, there = getattr(after, kind), getattr(outside.away, kind)
        assert ranks * here + there == pytest.approx(ranks * getattr(before, kind)), kind
    # a gradient is widened to fp32 on its way to the optimizer
    if setup.recipe.grads <= 4:
        assert ranks * after.grads + outside.away.grads >= ranks * before.grads / ALMOST
    assert outside.host + outside.nvme >= outside.away.total
    assert outside.pinned <= outside.host
    for metric in METRICS:
        assert estimate(away).get_peak(metric) <= estimate(setup).get_peak(metric) * ALMOST, metric


@given(setups())
def test_what_is_computed_again_is_not_kept(setup: Setup) -> None:
    assume(setup.adapters is None)
    none, selective, full = (
        compute_kept(setup._replace(recompute=how)).layer for how in ("none", "selective", "full")
    )
    assert 0 < full <= selective <= none * ALMOST


@given(setups(shard=8))
def test_each_stage_of_zero_holds_less(setup: Setup) -> None:
    mesh = setup.mesh._replace(replicate=1, shard=8)
    one, two, three = (
        [divide_states(asked, stage).total for stage in list_stages(asked)]
        for asked in (setup._replace(strategy=f"zero{n}", mesh=mesh) for n in (1, 2, 3))
    )
    assert all(a > b > c for a, b, c in zip(one, two, three, strict=True))
