"""An optimizer on the host: what its memory, PCIe and the GPU take, in DeepSpeed and in FSDP."""

from __future__ import annotations

from typing import Any

import pytest

from jobgen.data import gpus
from jobgen.strategy.memory.recipes import RECIPES
from jobgen.strategy.setup import Adapters, Setup
from jobgen.strategy.spec import Mesh, Offloaded
from jobgen.strategy.speed.host_update import compute_host_update, compute_parameter_copies
from jobgen.strategy.speed.machine_model import build_machine
from jobgen.strategy.speed.rates import get_memory_rate
from tests.strategy.speed.setups import A100, AUTOCAST, LLAMA, setup

PURE = RECIPES["pure"]
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
    # ZenFlow's figure 3: 4.6 s of Llama-2-7B on a node, for the 28 bytes of Adam, 8 and 6
    update, _ = compute_host_update(offloaded("zero3"), A100, PARAMS, STATES, 0.0)
    assert update == pytest.approx(8 * PARAMS * 4.6 / 6.74e9)


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
        ("zero3", 1, True, 2 * 2 + 4),  # parameters come up for each pass instead
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


HOST = 42 * 6.74e9 / 4.6
ADAM, LOOP = 28 / HOST, 14.76 / 10e9
"""Seconds of a parameter, of DeepSpeed's CPU Adam and of torch's (ZeRO-Offload, Table 4)."""


@pytest.mark.parametrize(
    ("framework", "own", "fused", "expected"),
    [
        ("deepspeed", True, True, ADAM),
        ("lightning", True, False, ADAM),
        ("accelerate", False, False, LOOP),
        ("accelerate", True, False, ADAM),
        ("hf-trainer", False, True, ADAM),  # adamw_torch_fused, its default
    ],
)
def test_zero_steps_with_the_adam_that_the_framework_has(
    framework: str, own: bool, fused: bool, expected: float
) -> None:
    asked = offloaded("zero3", framework=framework, cpu_adam=own, fused_step=fused)
    update, moved = compute_host_update(asked, A100, PARAMS, STATES, 0.0)
    assert update == pytest.approx(8 * PARAMS * (expected + 14 / HOST))
    assert moved == compute_host_update(offloaded("zero3"), A100, PARAMS, STATES, 0.0)[1]


@pytest.mark.parametrize(("fused", "expected"), [(True, ADAM), (False, LOOP)])
def test_fsdp_steps_with_torchs_adam_and_clips_on_the_host(fused: bool, expected: float) -> None:
    asked = offloaded("fsdp2", framework="torch", recipe=AUTOCAST, fused_step=fused)
    update, _ = compute_host_update(asked, A100, PARAMS, STATES, 60.0)
    assert update == pytest.approx(8 * PARAMS * (expected + 12 / HOST))


def test_torchs_fused_adam_passes_16_bits_of_all_that_is_pure_and_torchtune_clips_nothing() -> None:
    for framework, clipped in (("torch", 6), ("torchtune", 0)):
        asked = offloaded("fsdp2", framework=framework, recipe=PURE)
        update, _ = compute_host_update(asked, A100, PARAMS, STATES, 60.0)
        assert update == pytest.approx(8 * PARAMS * (14 + clipped) / HOST)


def test_fsdp_copies_gradients_as_they_are_stored_and_no_parameters_back() -> None:
    for recipe, width in ((AUTOCAST, 4), (PURE, 2)):
        asked = offloaded("fsdp", framework="torch", recipe=recipe)
        assert copy_bytes(asked) == pytest.approx(width)
        assert copy_bytes(asked, backward=60.0) == 0


def test_only_fsdp2_waits_for_gradients_that_it_adds_on_the_host() -> None:
    four = {"framework": "torch", "recipe": AUTOCAST, "accumulation": 4}
    assert copy_bytes(offloaded("fsdp2", **four), backward=60.0) == pytest.approx(3 * 4)
    for name, unsynced in (("fsdp", False), ("fsdp2", True)):
        assert copy_bytes(offloaded(name, unsynced=unsynced, **four), backward=60.0) == 0


def test_parameters_come_up_for_each_pass_beside_what_it_computes() -> None:
    def copied(strategy: str, forward: float, backward: float, **keys: Any) -> float:
        asked = offloaded(strategy, params=True, accumulation=2, **keys)
        seconds = compute_parameter_copies(asked, A100, forward, backward)
        return seconds * A100.host * 8 / asked.model.count

    assert copied("zero3", 0, 0) == pytest.approx(2 * 2 * 2)
    assert copied("fsdp2", 0, 0, recipe=AUTOCAST) == pytest.approx(2 * 2 * 4)
    assert copied("fsdp2", 60, 0, recipe=AUTOCAST) == pytest.approx(2 * 4)
    assert copied("fsdp2", 0, 0, recipe=AUTOCAST, reshard=False) == pytest.approx(2 * 4)
    assert copied("zero3", 60, 60) == 0


def test_frozen_parameters_come_up_as_they_are_stored() -> None:
    def copied(bits: int) -> float:
        asked = offloaded("fsdp", params=True, model=LLAMA, recipe=PURE)
        return compute_parameter_copies(
            asked._replace(adapters=Adapters(8, (), bits)), A100, 0.0, 0.0
        )

    assert 0.3 < copied(4) / copied(16) < 0.4  # embedding and output layer have 16 bits


def test_a_superchip_has_a_cpu_of_its_own() -> None:
    # deepspeedai/DeepSpeed, blogs/deepspeed-superoffload, figure 5; arXiv 2407.07850
    hopper = build_machine(gpus()["GH200-96GB"], 4, 25e9, "slingshot")
    asked = offloaded("zero3", mesh=Mesh(1, 4), world_per_node=4)
    update, _ = compute_host_update(asked, hopper, PARAMS, STATES, 0.0)
    assert update == pytest.approx(PARAMS * 0.098e-9 * 42 / 28)
    assert hopper.host == 297e9
    blackwell = build_machine(gpus()["GB200-186GB"], 4, 50e9, "infiniband")
    update, _ = compute_host_update(asked, blackwell, PARAMS, STATES, 0.0)
    assert update == pytest.approx(2 * PARAMS * 0.098e-9 * 42 / 28)  # two on a Grace


def test_a_host_of_pcie_5_has_the_memory_of_its_time() -> None:
    def update(gpu: str) -> float:
        machine = build_machine(gpus()[gpu], 8, 50e9, "infiniband")
        return compute_host_update(offloaded("zero3"), machine, PARAMS, STATES, 0.0)[0]

    assert update("A100-SXM4-80GB") / update("H100-SXM5-80GB") == pytest.approx(1.5)
    assert update("H100-SXM5-80GB") == update("B200-SXM-180GB")
    assert update("A100-SXM4-80GB") == update("RTX-4090-24GB")  # may lie in any desktop computer
