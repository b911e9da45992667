"""The formulas of a step with their inputs and their sources, as ``--why`` prints them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jobgen.strategy.estimate import ClusterHardware, Volume
from jobgen.strategy.setup import Setup
from jobgen.strategy.speed import rates

_SENT = {
    "all-gather": "(n - 1) / n of what n ranks gather",
    "reduce-scatter": "(n - 1) / n of what n ranks reduce",
    "all-reduce": "2 (n - 1) / n of what n ranks reduce",
    "all-to-all": "(n - 1) / n of what n ranks exchange",
    "send": "all of it, to one neighbour",
}
_RINGS = (
    "over k nodes of g ranks, each NIC carries (k - 1) / k / g of it "
    "(stas00/ml-engineering, network)"
)


def format_formulas(
    setup: Setup, machine: ClusterHardware, passes: tuple[float, float], volumes: Iterable[Volume]
) -> Iterator[str]:
    """Each formula in one line; ``passes`` are the seconds of one micro-batch, either way."""
    yield _flops(setup)
    rate = rates.get_matmul_rate(machine, bits=setup.recipe.product_bits) / 1e12
    yield (
        f"matrix products: FLOPs / {rate:.0f} TFLOP/s, as measured for large ones on a GPU "
        f"with {machine.peak / 1e12:.0f} TFLOP/s by its datasheet, in 16 bits, and "
        "slower where tiles leave multiprocessors idle (zzc0721/torch-performance-test-data; "
        "mli/transformers-benchmarks; Azure/AI-benchmarking-guide; stas00/ml-engineering)"
    )
    part = rates.get_memory_share(machine)
    yield (
        f"everything else: bytes / ({machine.bandwidth / 1e12:.2f} TB/s x {part}) "
        "(Azure/AI-benchmarking-guide; pytorch/ao, roofline_utils.py)"
    )
    forward, backward = passes
    yield f"one micro-batch: {forward:.3g} s forward, {backward:.3g} s backward"
    if setup.mesh.world > 1:
        yield (
            f"x {rates.SLOWEST} for the slowest GPU (arXiv 2208.11035), and "
            f"{rates.CONTENTION:.1%} more during communication (arXiv 2507.03114)"
        )
    yield from _sent(volumes)
    if machine.measured and machine.measured.source:
        yield f"measured link rates: {machine.measured.source}"
    if setup.mesh.pp > 1:
        yield (
            f"bubble: one micro-batch on the other stages of {setup.mesh.pp} / {setup.chunks} "
            "(arXiv 2104.04473)"
        )


def _flops(setup: Setup) -> str:
    if setup.measured is not None:
        return (
            "model FLOPs: of each product and attention in the model's own step on fake tensors "
            f"(torch {setup.measured.torch}, FlopCounterMode's formulas)"
        )
    each = 4 if setup.adapters else 6
    return (
        f"model FLOPs per token: {each} x {setup.model.active:,} active parameters + 12 x "
        f"layers x attention width x {setup.seq} tokens (PaLM, arXiv 2204.02311, appendix B)"
    )


def _sent(volumes: Iterable[Volume]) -> Iterator[str]:
    kinds = dict.fromkeys(volume.what.partition(" ")[0] for volume in volumes)
    yield from (f"{kind}: each rank sends {_SENT[kind]}" for kind in kinds)
    if any(volume.link == "network" for volume in volumes):
        yield _RINGS
