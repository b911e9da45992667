"""Made answers of the planner, for what draws them. The numbers are round, not true."""

from __future__ import annotations

from typing import Any

from jobgen.strategy.choice.offer import Advice, Lever, Offer, Scale, StrategyOption
from jobgen.strategy.estimate import (
    GIB,
    ClusterHardware,
    Component,
    GpuMemory,
    Moment,
    StepTime,
    Verdict,
    Volume,
)
from jobgen.strategy.setup import Recipe, Setup
from jobgen.strategy.shapes.architecture import Architecture, Layer, Model, Tensor
from jobgen.strategy.spec import Batch, Mesh

A100 = ClusterHardware(
    gpu="A100-SXM4-80GB",
    memory=80 * GIB,
    peak=312e12,
    bandwidth=2.0e12,
    link=300e9,
    network=25e9,
    fabric="infiniband",
    node_memory=1024 * GIB,
)
LLAMA = Model(
    Architecture("meta-llama/Llama-3.1-8B", 32, 4096, 32, 8, 128, 14336, 128256),
    (Layer((Tensor("gate", "mlp", (4096, 14336), 3),), 32),),
    (Tensor("embed", "embedding", (128256, 4096)),),
)
ADAM = Recipe("bf16-mixed", 4, 4, 0, 8)
KINDS = (
    "params",
    "grads",
    "master",
    "moments",
    "gathered",
    "buckets",
    "activations",
    "logits",
    "temporary",
    "context",
    "cache",
)
SHRINKS = ("params", "grads", "master", "moments")


def component(name: str, gib: float) -> Component:
    """A part of so many GiB."""
    return Component(
        name,
        gib * GIB,
        f"{gib} GiB = 4 bytes x 8.03e9 / 16 ranks",
        "torch/distributed/fsdp",
        name in SHRINKS,
    )


def memory(*gib: float, moment: Moment = "backward", **more: Any) -> GpuMemory:
    """A memory of these parts, in the order of ``KINDS``."""
    parts = tuple(component(name, size) for name, size in zip(KINDS, gib, strict=False))
    total = sum(part.bytes for part in parts)
    return GpuMemory(parts, moment, total * 0.94, total * 1.06, **more)


def step(compute: float, exposed: float, *, bubble: float = 0.0, offload: float = 0.0) -> StepTime:
    """A step of 131072 tokens on 16 ranks."""
    return StepTime(
        compute,
        (
            Volume("all-gather of parameters", "node", 15e9, 0.4, exposed * 0.25),
            Volume("reduce-scatter of gradients", "network", 15e9, 0.5, exposed * 0.75),
        ),
        bubble,
        0.02,
        offload,
        131072.0,
        16,
        131072 / 16 * 6 * 8.03e9,
        0.55,
        ("compute = 6 x 8.03e9 x 8192 tokens / (0.55 x 312e12)",),
    )


def setup(strategy: str = "fsdp", nodes: int = 2, recompute: str = "none") -> Setup:
    """Llama on so many nodes of eight GPUs."""
    ranks = nodes * 8
    return Setup(
        LLAMA,
        strategy,
        Mesh(1, ranks),
        Batch(2, 1, ranks),
        4096,
        ADAM,
        recompute="full" if recompute == "full" else "none",
    )


def option(
    name: str,
    title: str,
    found: GpuMemory,
    speed: StepTime | None,
    verdict: Verdict,
    note: str = "",
    *,
    chosen: bool = False,
) -> StrategyOption:
    """One row."""
    return StrategyOption(
        name, title, setup(name.partition("+")[0]), found, speed, verdict, note, chosen
    )


DDP = option(
    "ddp",
    "DDP",
    memory(29.9, 29.9, 0, 59.8, 0, 1.2, 36.1, 3.9, 0.4, 1.4, 2.1),
    step(1.2, 0.1),
    "no",
    "the states alone need 120 GiB",
)
ZERO2 = option(
    "zero2",
    "ZeRO-2",
    memory(15.0, 0.9, 1.9, 3.7, 0, 1.9, 36.1, 10.2, 1.1, 1.4, 3.1),
    step(1.21, 0.18),
    "tight",
    "6 % headroom",
)
FSDP = option(
    "fsdp",
    "FSDP FULL_SHARD",
    memory(1.9, 1.9, 0, 3.7, 1.6, 0.9, 29.1, 5.2, 0.04, 1.4, 2.6, checkpoint=96e9),
    step(1.21, 0.24),
    "fits",
    "chosen: the first rung of the ladder that fits with more than 10 % headroom",
    chosen=True,
)
OFFLOAD = option(
    "fsdp+full+cpu",
    "FSDP FULL_SHARD, full recompute, CPU offload",
    memory(0, 0, 0, 0, 1.6, 0.9, 4.1, 5.2, 0.4, 1.4, 1.1, host=96e9 * 1.34, pinned=96e9),
    step(1.6, 0.24, offload=1.1),
    "fits",
)
PIPE = option(
    "3d",
    "TP 4 x PP 2 x DP 2",
    memory(3.7, 7.5, 7.5, 15.0, 0, 0.9, 8.1, 2.2, 0.4, 2.4, 1.6),
    step(1.3, 0.4, bubble=0.35),
    "unknown",
    "interleaved stages with an uneven last one are not modelled",
)


def scale(nodes: int, rate: float, efficiency: float, verdict: Verdict = "fits") -> Scale:
    """FSDP on so many nodes."""
    found = FSDP._replace(setup=setup("fsdp", nodes), verdict=verdict, note="")
    return Scale(nodes, found, rate, efficiency)


ADVICE = Advice(
    A100,
    80 * GIB,
    (DDP, ZERO2, FSDP, OFFLOAD, PIPE),
    FSDP,
    scale=(
        scale(1, 0, 0, "no"),
        scale(2, 89000, 1.0),
        scale(4, 172000, 0.97),
        scale(8, 310000, 0.87),
    ),
    doubts=("samples of different lengths are not modelled", "AdamW in fp32 is assumed"),
    why=("ddp: 165 GiB is over 80.0 GiB", "zero2: fits with 6 % headroom only", "fsdp: fits"),
)
LEVERS = (
    Lever(("train.strategy: fsdp",), 112.3 * GIB, 0.04, 52.5 * GIB, "fits", rate=85_600),
    Lever(("train.offload: both", "nodes: 4"), 92.3 * GIB, 0.5, 72.5 * GIB, "tight", rate=59_300),
    Lever(("train.activation_checkpointing: full",), 32.0 * GIB, 0.33, 132.8 * GIB, "no"),
    Lever(("train.loss: fused",), 10.2 * GIB, 0.0, 154.6 * GIB, "no", "Liger in the program"),
)
NONE = ADVICE._replace(
    options=(DDP, ZERO2._replace(verdict="no", note="")),
    chosen=None,
    levers=LEVERS,
    smallest_nodes=4,
    scale=(),
)
OFFERS = (
    Offer("a100x16", FSDP, 240.0, 444.0, "EUR"),
    Offer(
        "h100x32", FSDP._replace(setup=setup("fsdp", 4), step=step(0.5, 0.12)), 110.0, 396.0, "EUR"
    ),
    Offer("dgx-own", FSDP, 240.0, 72.0, "EUR", owned=180000.0),
)
HOSTILE = "<script>alert('x')</script>\x1b]0;t\x07\u202e\"&\ufffe]]>"
