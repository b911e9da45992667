"""What a program of Megatron-LM says of how its ranks send and how kernels are started, in words
that jobgen leaves to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jobgen.named_tuple import NamedTuple
from jobgen.strategy.frameworks.program_options import read_values

_GRAPHS = ("local", "transformer_engine")
"""Values of ``--cuda-graph-impl`` that make graphs."""


class MegatronTraffic(NamedTuple):
    """Of ``run:``; the names are those of :class:`jobgen.strategy.setup.Setup`."""

    overlap_tp: bool = False
    overlap_reduce: bool = False
    fused_dispatch: bool = False
    gathers_tokens: bool = False
    overlap_experts: bool = False
    graphed: bool = False
    chunks: int = 1


def read_traffic(words: Sequence[str], layers: int, pp: int) -> MegatronTraffic:
    """The options of a program that trains so many layers in ``pp`` stages.

    Names and defaults are those of ``megatron/training/arguments.py`` (tag core_v0.16.1); where
    the shell puts a value in, the option counts as absent.
    """
    values = read_values(words)
    dispatcher = values.get("--moe-token-dispatcher-type")
    return MegatronTraffic(
        "--tp-comm-overlap" in values,
        "--overlap-grad-reduce" in values,
        dispatcher == "flex",
        dispatcher not in {"flex", "alltoall"},
        "--overlap-moe-expert-parallel-comm" in values,
        values.get("--cuda-graph-impl", "none") in _GRAPHS,
        _count_chunks(values.get, layers, pp),
    )


def _count_chunks(get: Callable[[str], str | None], layers: int, pp: int) -> int:
    """Interleaved parts of the model that each of several stages holds."""
    chunks = _read_count(get("--num-virtual-stages-per-pipeline-rank"))
    each = _read_count(get("--num-layers-per-virtual-pipeline-stage"))
    if pp == 1 or not (chunks or each):
        return 1
    return max(1, chunks or layers // pp // each)


def _read_count(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0
