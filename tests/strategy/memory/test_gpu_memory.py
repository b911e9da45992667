"""``benchmarks/gpu_memory.py``: what can be known of it where there is no GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from jobgen.strategy.memory import estimate

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "benchmarks"


@cache
def benchmark(name: str) -> Any:
    """A script of the folder, which is no package."""
    sys.path.insert(0, str(FOLDER))
    try:
        return __import__(name)
    finally:
        sys.path.remove(str(FOLDER))


CONFIGURATIONS = benchmark("gpu_memory").CONFIGURATIONS


def run(*words: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "CUDA_VISIBLE_DEVICES": ""}
    script = [sys.executable, str(FOLDER / "gpu_memory.py"), *words]
    return subprocess.run(script, env=env, capture_output=True, text=True)


def test_without_a_gpu_it_says_so_and_writes_nothing(tmp_path: Path) -> None:
    done = run("--json", str(tmp_path / "found.json"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "no CUDA GPU here: the measurement was not run\n"
    assert not list(tmp_path.iterdir())


def test_a_name_that_it_does_not_know_is_refused() -> None:
    done = run("smal")
    assert done.returncode == 2
    assert "unknown: smal" in done.stderr


@pytest.mark.parametrize("one", CONFIGURATIONS, ids=lambda one: one.name)
def test_its_configurations_are_setups_for_one_gpu(one: Any) -> None:
    found = estimate(one.setup)
    assert one.setup.mesh.world == one.setup.batch.ranks == 1
    assert one.setup.tokens == one.seq * one.micro
    assert (
        1 << 30
        < found.get_peak("allocated")
        < found.get_peak("reserved")
        < found.nvidia_smi
        < 80 << 30
    )


def test_its_configurations_differ_in_all_that_matters() -> None:
    assert len({one.name for one in CONFIGURATIONS}) == len(CONFIGURATIONS) >= 12
    for field, least in (
        ("sizes", 4),
        ("recompute", 3),
        ("precision", 2),
        ("optimizer", 2),
        ("seq", 4),
    ):
        assert len({getattr(one, field) for one in CONFIGURATIONS}) >= least, field


@pytest.mark.train
@pytest.mark.slow
def test_its_decoder_has_the_parameters_that_are_counted() -> None:
    torch = pytest.importorskip("torch")
    decoder = benchmark("gpu_decoder")
    for setup in {one.sizes: one.setup for one in CONFIGURATIONS}.values():
        with torch.device("meta"):
            made = decoder.Decoder(setup.model.sizes, "none")
        assert sum(tensor.numel() for tensor in made.parameters()) == setup.model.count


@pytest.mark.train
@pytest.mark.slow
def test_its_decoder_learns_the_same_whatever_is_recomputed() -> None:
    pytest.importorskip("torch")
    sizes = benchmark("gpu_memory").SMALL._replace(
        layers=2, hidden=32, heads=4, kv_heads=2, head_dim=8, ffn=64, vocab=64
    )
    losses = {
        kind: benchmark("gpu_decoder").train(
            sizes, recompute=kind, pure=False, fused=False, shape=(2, 16), device="cpu"
        )
        for kind in ("none", "selective", "full")
    }
    assert losses["none"][0] > losses["none"][-1]
    assert losses["none"] == pytest.approx(losses["selective"], rel=1e-3)
    assert losses["none"] == pytest.approx(losses["full"], rel=1e-3)
