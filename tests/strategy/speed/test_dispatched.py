"""How much a layer asks of the host: counted where torch dispatches, without a GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from jobgen.strategy.memory.recipes import RECIPES
from jobgen.strategy.setup import Setup
from jobgen.strategy.shapes.architecture import Architecture
from jobgen.strategy.shapes.count import build_model
from jobgen.strategy.spec import Batch, Mesh
from jobgen.strategy.speed.compute import count_kernels

LLAMA = Architecture("llama", 2, 64, 4, 2, 16, 128, 64)
GPT = LLAMA._replace(kv_heads=4, ffn=256, gated=False, positions=32, layer_norm=True, rotary="")


def count(shape: Architecture, framework: str) -> int:
    """What the planner counts of a layer."""
    model = build_model(shape)
    setup = Setup(model, "ddp", Mesh(1, 1), Batch(1, 1, 1), 32, RECIPES["mixed"])
    return count_kernels(setup._replace(framework=framework), model.layers[0].tensors)


@pytest.mark.train("torch", "transformers", "megatron")
def test_megatrons_layer_starts_as_many_of_a_llamas_kernels_as_torch_dispatches() -> None:
    script = Path(__file__).with_name("dispatched.py")
    ran = subprocess.run(
        [sys.executable, str(script)], check=True, capture_output=True, text=True, timeout=300
    )
    found = json.loads(ran.stdout)
    expected = count(LLAMA, "torch") * found["megatron"] / found["llama"]
    assert count(GPT, "megatron") == pytest.approx(expected, abs=1)
