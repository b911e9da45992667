"""An optimizer on the host: what its memory, PCIe and the GPU take, in DeepSpeed and elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from jobgen.strategy.setup import Setup
from jobgen.strategy.spec import Mesh, Offloaded
from jobgen.strategy.speed.host_update import compute_host_update
from jobgen.strategy.speed.rates import get_memory_rate
from tests.strategy.speed.setups import A100, setup

PARAMS = 1e9
STATES = 14


def offloaded(strategy: str = "zero2", **keys: Any) -> Setup:
    to = Offloaded(optimizer=True, params=keys.pop("params", False))
    keys = {"framework": "deepspeed", "mesh": Mesh(1, 8), "world_per_node": 8} | keys
    return setup(strategy, offload=to, **keys)


def copy_bytes(asked: Setup, backward: float = 0.0) -> float:
    """Bytes of a parameter that PCIe carries while nothing else is done."""
    _, moved = compute_host_update(asked, A100, PARAMS, STATES, backward)
    return moved * A100.host / PARAMS


def test_the_host_scales_gradients_and_narrows_parameters_beside_cpu_adam() -> None:
    # ZeRO-Offload (arXiv 2101.06840), Table 4: 2.57 s for ten billion, 28 bytes each
    update, _ = compute_host_update(offloaded("zero3"), A100, PARAMS, STATES, 0.0)
    assert update == pytest.approx(8 * PARAMS * 2.57 / 10e9 * (28 + 8 + 6) / 28)


def test_zero2_looks_at_gradients_on_the_gpu_before_it_copies_them() -> None:
    two, three = (
        compute_host_update(offloaded(name), A100, PARAMS, STATES, 0.0)[0]
        for name in ("zero2", "zero3")
    )
    assert two - three == pytest.approx(60 * PARAMS / get_memory_rate(A100))


@pytest.mark.parametrize(
    ("strategy", "accumulation", "params", "expected"),
    [
        ("zero2", 1, False, 4 + 2),  # fp32 gradients down, 16-bit parameters up
        ("zero2", 4, False, 7 * 2 + 4 + 2),  # three sums come up again and four go down
        ("zero3", 1, False, 2 * 2 + 4 + 2),
        ("zero3", 4, False, 8 * 2 + 4 + 2),
        ("zero3", 1, True, 2 * 2 + 4 + 2 * 2),  # parameters come up for each pass instead
    ],
)
def test_gradients_cross_pcie_in_each_micro_batch(
    strategy: str, accumulation: int, params: bool, expected: float
) -> None:
    asked = offloaded(strategy, accumulation=accumulation, params=params, overlap_reduce=False)
    assert copy_bytes(asked) == pytest.approx(expected)


def test_backward_passes_hide_copies_of_gradients_but_zero2s_last() -> None:
    assert copy_bytes(offloaded("zero3", accumulation=4), backward=60.0) == pytest.approx(2)
    assert copy_bytes(offloaded("zero2", accumulation=4), backward=60.0) == pytest.approx(2 + 6 + 2)
    waiting = offloaded("zero2", accumulation=4, overlap_reduce=False)
    assert copy_bytes(waiting, backward=60.0) == pytest.approx(14 + 4 + 2)


def test_torch_has_its_own_adam_on_the_host() -> None:
    asked = offloaded("fsdp2", framework="torch")
    update, _ = compute_host_update(asked, A100, PARAMS, STATES, 0.0)
    assert update == pytest.approx(8 * PARAMS * 14.76 / 10e9)
