"""Users' own models, measured on fake tensors, against MemTracker's count of a real step."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import product
from typing import Any

import pytest

from jobgen.strategy.measured_model import MeasuredModel, build_measured, read_measured
from jobgen.strategy.memory import estimate, list_moments
from jobgen.strategy.memory.recipes import get_recipe
from jobgen.strategy.setup import Setup
from jobgen.strategy.spec import Batch, Mesh
from tests.products import one_of_each

WITHIN = 0.03
SHARDED_WITHIN = 0.1
"""Of models so small that two gathered layers are not much less than all."""
MODELS = (
    "vision_transformer",
    "diffusion_unet",
    "lora_decoder",
    "frozen_adapters",
    "residual_network",
    "variational_autoencoder",
    "click_predictor",
    "tied_decoder",
    "recurrent_model",
    "dense_experts",
    "encoder_decoder",
    "self_distillation",
    "speech_recognizer",
    "converted_decoder",
    "routed_experts",
    "cached_translator",
)
KEPT = MODELS[:3]
SHARDED = ("vision_transformer", "tied_decoder", "lora_decoder", "frozen_adapters")


def run(*names: str) -> list[dict[str, Any]]:
    """Reports and real steps of these models."""
    return [json.loads(line) for line in run_script("measured_steps", *names).splitlines()]


def run_script(script: str, *words: str) -> str:
    """What a script beside this file prints."""
    command = [sys.executable, "-m", f"tests.strategy.memory.{script}", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


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
        flash=False,
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
            said = estimate(build(model, mode, recompute)).get_peak("allocated")
            assert said == pytest.approx(real, rel=WITHIN), (told["name"], step)
            compared += 1
    assert compared >= 2 * len(names)


@pytest.mark.parametrize(
    ("name", "micro"),
    one_of_each(
        product(("tied_decoder", "lora_decoder", "frozen_adapters"), (2, 4, 8)),
        kept=[("lora_decoder", 4)],
    ),
)
def test_each_stage_of_a_pipeline_needs_what_a_real_one_needs(name: str, micro: int) -> None:
    model = read_measured(name, json.loads(measure_sharded(name, "none", 0)))
    recomputes = ("none", "full")
    peaks = run_script("piped_steps", name, str(micro), *recomputes).splitlines()
    for recompute, real in zip(recomputes, peaks, strict=True):
        setup = build(model, "fp32", recompute)._replace(
            strategy="3d", mesh=Mesh(1, 1, pp=2), batch=Batch(model.micro, micro, 1)
        )
        assert list_stage_peaks(setup) == pytest.approx(json.loads(real), rel=WITHIN), recompute


def list_stage_peaks(setup: Setup) -> list[float]:
    """What each stage allocates at most."""
    peaks = [0.0] * setup.mesh.pp
    for stage, parts in list_moments(setup):
        peaks[stage.number] = max(peaks[stage.number], parts.allocated)
    return peaks


@pytest.mark.exhaustive
@pytest.mark.parametrize("recompute", ["none", "full"])
@pytest.mark.parametrize("name", SHARDED)
def test_a_fake_rank_of_fsdp2_needs_what_a_real_one_needs(name: str, recompute: str) -> None:
    real = int(run_script("sharded_steps", name, recompute))
    fake = json.loads(measure_sharded(name, recompute, 2))["sharded"]
    assert fake["peak"] == pytest.approx(real, rel=WITHIN)


def measure_sharded(name: str, recompute: str, ranks: int) -> str:
    """The report, with that on a fake rank of FSDP2 if there are several."""
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
@pytest.mark.parametrize("name", SHARDED)
def test_sixteen_fake_ranks_need_what_the_planner_says(name: str, recompute: str) -> None:
    model = read_measured(name, json.loads(measure_sharded(name, recompute, 16)))
    assert model.sharded is not None
    setup = build(model, "fp32", recompute)._replace(
        strategy="fsdp2", mesh=Mesh(1, 16), batch=Batch(model.micro, 1, 16)
    )
    said = estimate(setup).get_peak("allocated")
    assert said == pytest.approx(model.sharded.peak, rel=SHARDED_WITHIN)
