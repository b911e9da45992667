"""The bytes of every collective: what the formulas say is what torch sends, to the byte."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from jobgen.strategy.memory.recipes import RECIPES
from jobgen.strategy.setup import Recipe, Setup
from jobgen.strategy.shapes.architecture import Architecture, Layer, Model, Tensor
from jobgen.strategy.spec import Batch, Mesh
from jobgen.strategy.speed.traffic import list_traffic
from tests.extensions import PATH, copy_extensions

RANKS = 4
FP32 = Recipe("fp32", 4, 4, 0, 8, compute=4, reduce=4)
BLOCK = Layer((Tensor("up", "mlp", (32, 16)), Tensor("down", "mlp", (16, 32))), 4)
NET = Model(
    Architecture("net", 4, 16, 1, 1, 16, 32, 64),
    (BLOCK,),
    (Tensor("embed", "embedding", (64, 16)), Tensor("head", "head", (64, 16))),
)


_FLAGS = 8
"""Bytes of DeepSpeed's checks of a step, beside parameters and gradients, at the most."""


def setup(strategy: str, mesh: Mesh, *, reshard: bool | int = True) -> Setup:
    return Setup(NET, strategy, mesh, Batch(2, 2, RANKS), 8, FP32, reshard=reshard)


def zero(strategy: str) -> Setup:
    narrow = setup(strategy, Mesh(1, RANKS))._replace(recipe=RECIPES["mixed"])
    return narrow._replace(framework="deepspeed")


CASES = {
    "ddp": setup("ddp", Mesh(RANKS, 1)),
    "fsdp": setup("fsdp", Mesh(1, RANKS)),
    "fsdp-grad-op": setup("fsdp-grad-op", Mesh(1, RANKS)),
    "fsdp-hybrid": setup("fsdp-hybrid", Mesh(2, RANKS // 2)),
    "fsdp2": setup("fsdp2", Mesh(1, RANKS)),
    "fsdp2 kept": setup("fsdp2", Mesh(1, RANKS), reshard=False),
    "fsdp2 by 2": setup("fsdp2", Mesh(1, RANKS), reshard=2),
    "zero1": zero("zero1"),
    "zero2": zero("zero2"),
}


def said(asked: Setup) -> dict[str, float]:
    """The payloads of a step, by collective."""
    found: dict[str, float] = defaultdict(float)
    for one in list_traffic(asked):
        found[one.what] += one.payload * one.times
    return dict(found)


@pytest.mark.slow
@pytest.mark.train("torch", "deepspeed")
def test_torch_sends_what_is_said(tmp_path: Path) -> None:
    compiled = {"PATH": PATH, "TORCH_EXTENSIONS_DIR": str(copy_extensions(tmp_path))}
    done = subprocess.run(
        [sys.executable, "-m", "tests.strategy.speed.sent", str(RANKS)],
        cwd=Path(__file__).parents[3],
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", **compiled},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = (json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"case"'))
    sent = {line["case"]: line["bytes"] for line in lines}
    assert sent.keys() == CASES.keys()
    for case, asked in CASES.items():
        flags = _FLAGS if asked.framework == "deepspeed" else 0
        assert sent[case] == pytest.approx(said(asked), abs=flags), case
