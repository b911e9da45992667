"""Users' own models, measured on fake tensors, against MemTracker's count of a real step."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from jobgen.strategy.measured_model import MeasuredModel, build_measured, read_measured
from jobgen.strategy.memory import estimate
from jobgen.strategy.memory.recipes import get_recipe
from jobgen.strategy.setup import Setup
from jobgen.strategy.spec import Batch, Mesh

WITHIN = 0.03
SHARDED_WITHIN = 0.1
"""Of models so small that two gathered layers are not much less than all."""
MODELS = (
    "vision_transformer",
    "diffusion_unet",
    "frozen_adapters",
    "residual_network",
    "variational_autoencoder",
    "click_predictor",
    "tied_decoder",
    "recurrent_model",
    "dense_experts",
    "encoder_decoder",
)
KEPT = MODELS[:3]


def run(*names: str) -> list[dict[str, Any]]:
    """Reports and real steps of these models."""
    command = [sys.executable, "-m", "tests.strategy.memory.measured_steps", *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def build(model: MeasuredModel, mode: str, recompute: str) -> Setup:
    """One rank that trains the model."""
    return Setup(
        build_measured(model),
        "ddp",
        Mesh(1, 1),
        Batch(model.micro, 1, 1),
        1,
        get_recipe(mode),
        recompute=recompute,  # type: ignore[arg-type]
        framework="none",
        fused_step=False,
        measured=model,
    )


@pytest.mark.parametrize(
    "names", [KEPT, pytest.param(MODELS[3:], marks=pytest.mark.exhaustive)], ids=["three", "others"]
)
def test_a_measured_model_needs_what_a_real_step_needs(names: tuple[str, ...]) -> None:
    compared = 0
    for told in run(*names):
        model = read_measured(told["name"], told["report"])
        for step, real in told["real"].items():
            mode, recompute = step.split()
            said = estimate(build(model, mode, recompute)).peak_allocated
            assert said == pytest.approx(real, rel=WITHIN), (told["name"], step)
            compared += 1
    assert compared >= 2 * len(names)


@pytest.mark.exhaustive
@pytest.mark.parametrize("recompute", ["none", "full"])
@pytest.mark.parametrize("name", ["vision_transformer", "tied_decoder", "frozen_adapters"])
def test_a_fake_rank_of_fsdp2_needs_what_a_real_one_needs(name: str, recompute: str) -> None:
    command = [sys.executable, "-m", "tests.strategy.memory.sharded_steps", name, recompute]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    real = int(done.stdout)
    fake = json.loads(measure_sharded(name, recompute, 2))["sharded"]
    assert fake["peak"] == pytest.approx(real, rel=WITHIN)


def measure_sharded(name: str, recompute: str, ranks: int) -> str:
    """The report on a fake rank."""
    program = (
        "import json, sys; from tests.strategy.memory.measured_steps import report; "
        "print(json.dumps(report(sys.argv[1], sys.argv[2], int(sys.argv[3]))))"
    )
    command = [sys.executable, "-c", program, name, recompute, str(ranks)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.exhaustive
@pytest.mark.parametrize("recompute", ["none", "full"])
@pytest.mark.parametrize("name", ["vision_transformer", "tied_decoder", "frozen_adapters"])
def test_sixteen_fake_ranks_need_what_the_planner_says(name: str, recompute: str) -> None:
    model = read_measured(name, json.loads(measure_sharded(name, recompute, 16)))
    assert model.sharded is not None
    setup = build(model, "fp32", recompute)._replace(
        strategy="fsdp2", mesh=Mesh(1, 16), batch=Batch(model.micro, 1, 16)
    )
    said = estimate(setup).peak_allocated
    assert said == pytest.approx(model.sharded.peak, rel=SHARDED_WITHIN)
