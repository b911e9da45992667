"""The bytes of every shard: what the formulas say is what the libraries hold, to the byte."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from jobgen.model.parallel import Parallel
from jobgen.model.train import Train
from jobgen.strategy import ModelSizes, RankLayout, Strategy, decide
from jobgen.strategy.sharded_bytes import RankStates, Unit, compute_states, divide_shape
from tests.extensions import PATH, copy_extensions

BLOCK: Unit = ((37, 13), (37,), (13, 37), (13,), (13,))
ROOT: Unit = ((51, 13), (13,), (13,), (51, 13), (51,))
RANKS = 4
FOLDER = Path(__file__).parents[2]

TORCH: Mapping[str, Mapping[str, Any]] = {
    "ddp": {"type": "ddp"},
    "fsdp": {"type": "fsdp"},
    "fsdp-grad-op": {"type": "fsdp-grad-op"},
    "fsdp-no-shard": {"type": "fsdp-no-shard"},
    "fsdp-hybrid": {"type": "fsdp-hybrid"},
    "fsdp2": {"type": "fsdp2"},
    "fsdp2 kept": {"type": "fsdp2", "reshard_after_forward": False},
    "fsdp2 by 2": {"type": "fsdp2", "reshard_after_forward": 2},
    "fsdp2 shard 2": {"type": "fsdp2", "shard": 2},
}
DEEPSPEED = ("zero1 bf16", "zero2 bf16", "zero2 fp32", "zero3 bf16")


def strategy(precision: str = "bf16", **asked: Any) -> Strategy:
    """A strategy on two nodes of two ranks."""
    train = Train(strategy=Parallel(**asked), precision=precision)
    return decide(train, ModelSizes(), RankLayout(2, RANKS // 2, "none"), launcher="torchrun")


def measured(library: str, **env: str) -> dict[str, list[RankStates]]:
    """Case → what each rank holds, as measured in the processes."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.strategy.measure", str(RANKS), library],
        cwd=FOLDER,
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = (json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"case"'))
    return {line["case"]: [RankStates(**held) for held in line["held"]] for line in lines}


@pytest.mark.slow
@pytest.mark.train("torch")
def test_what_torch_holds_is_what_the_formulas_say() -> None:
    found = measured("torch")
    assert found.keys() == TORCH.keys()
    for case, held in found.items():
        units = (BLOCK, BLOCK, ROOT)
        said = [compute_states(strategy(**TORCH[case]), units, rank) for rank in range(RANKS)]
        assert held == said, case


@pytest.mark.slow
@pytest.mark.train("deepspeed")
def test_what_deepspeed_holds_is_what_the_formulas_say(tmp_path: Path) -> None:
    found = measured("deepspeed", PATH=PATH, TORCH_EXTENSIONS_DIR=str(copy_extensions(tmp_path)))
    assert tuple(found) == DEEPSPEED
    for case, held in found.items():
        name, precision = case.split()
        decided = strategy(precision, type=name)
        said = [compute_states(decided, (BLOCK, BLOCK, ROOT), rank) for rank in range(RANKS)]
        assert held == said, case


def test_twice_the_ranks_hold_about_half_of_each() -> None:
    big: Unit = ((4096, 1024),) * 8
    for name in ("fsdp", "fsdp2", "zero3"):
        train = Train(strategy=Parallel(type=name))
        few, many = (
            compute_states(
                decide(train, ModelSizes(), RankLayout(n, 8, "none"), launcher=""), (big,)
            )
            for n in (1, 2)
        )
        assert few.params == 2 * many.params
        assert few.moments == 2 * many.moments


@pytest.mark.parametrize(
    ("shape", "dimension", "part"),
    [((96, 72), 0, (48, 72)), ((72, 96), 1, (72, 48)), ((72,), None, (72,)), ((97, 2), 0, (49, 2))],
)
def test_tensor_parallel_divides_one_dimension(
    shape: tuple[int, ...], dimension: int | None, part: tuple[int, ...]
) -> None:
    assert divide_shape(shape, dimension, 2) == part
