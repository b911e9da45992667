"""Setups and machines that tests of the step time begin with."""

from __future__ import annotations

from typing import Any

from jobgen.strategy.estimate import ClusterHardware
from jobgen.strategy.setup import Recipe, Setup
from jobgen.strategy.shapes.architecture import Architecture, Experts
from jobgen.strategy.shapes.count import build_model
from jobgen.strategy.spec import Batch, Mesh

A100 = ClusterHardware(
    gpu="A100-SXM4-80GB",
    memory=80 << 30,
    peak=312e12,
    bandwidth=2039e9,
    link=300e9,
    network=25e9,
    fabric="infiniband",
)
H100 = A100._replace(
    gpu="H100-SXM5-80GB",
    peak=989e12,
    bandwidth=3350e9,
    link=450e9,
    network=50e9,
    architecture="Hopper",
    multiprocessors=132,
    fast8=1979e12,
)
SMALL = build_model(Architecture("small", 4, 64, 4, 4, 16, 256, 1000, tied=True))
LLAMA = build_model(Architecture("llama-3-8b", 32, 4096, 32, 8, 128, 14336, 128256))
SPARSE = build_model(
    Architecture("sparse", 4, 64, 4, 4, 16, 256, 1000, experts=Experts(8, 2, 128), tied=True)
)
MIXED = Recipe("mixed", 2, 2, 4, 8)
AUTOCAST = Recipe("autocast", 4, 4, 0, 8, compute=2, reduce=4)


def setup(strategy: str = "ddp", **keys: Any) -> Setup:
    """Eight ranks that train the small model, but for what is said otherwise."""
    mesh = keys.pop("mesh", None)
    if mesh is None:
        mesh = Mesh(8, 1) if strategy in {"ddp", "3d"} else Mesh(1, 8)
    micro, accumulation = keys.pop("micro", 2), keys.pop("accumulation", 1)
    base = Setup(
        model=keys.pop("model", SMALL),
        strategy=strategy,
        mesh=mesh,
        batch=Batch(micro, accumulation, mesh.data),
        seq=keys.pop("seq", 128),
        recipe=keys.pop("recipe", MIXED),
    )
    return base._replace(**keys)


TITAN = setup(
    "fsdp2",
    model=LLAMA,
    mesh=Mesh(1, 1, tp=8),
    framework="torchtitan",
    sequence_parallel=True,
    recompute="selective",
)
"""Eight ranks of torchtitan's tensor parallel."""
