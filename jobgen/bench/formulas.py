"""Bandwidths of a collective, and what it costs to begin one.

The formulas are those of nccl-tests (NVIDIA/nccl-tests, doc/PERFORMANCE.md): algorithm bandwidth is
size / time, of the whole array; bus bandwidth multiplies it with what makes it comparable with the
slowest link, whatever the number of ranks.
"""

from __future__ import annotations

from collections.abc import Sequence

from jobgen.named_tuple import NamedTuple

_TIMES = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}
OPS = tuple(_TIMES)
_LEAST = 1e-12
"""Seconds: nothing is sent in less."""


class Fit(NamedTuple):
    """``seconds = alpha + bytes / rate``."""

    alpha: float
    rate: float
    """Algorithm bandwidth of endless messages, bytes per second."""


def get_bus_factor(op: str, ranks: int) -> float:
    """Bus bandwidth / algorithm bandwidth: 2 (n - 1) / n, or (n - 1) / n. 0 for one rank alone."""
    return _TIMES[op] * (ranks - 1) / ranks if ranks else 0.0


def compute_algbw(size: float, seconds: float) -> float:
    """Bytes per second."""
    return size / seconds if seconds > 0 else 0.0


def compute_busbw(op: str, ranks: int, size: float, seconds: float) -> float:
    """Bytes per second."""
    return compute_algbw(size, seconds) * get_bus_factor(op, ranks)


def fit(points: Sequence[tuple[float, float]]) -> Fit | None:
    """The line through (bytes, seconds) with the least squares of relative errors.

    Relative, or the largest message would decide alone. None where sizes do not differ or times do
    not grow with them.
    """
    known = [(size, seconds) for size, seconds in points if seconds > _LEAST]
    if len({size for size, _ in known}) < 2:
        return None
    weights = [1 / seconds**2 for _, seconds in known]
    whole = sum(weights)
    x = sum(w * size for w, (size, _) in zip(weights, known, strict=True)) / whole
    y = sum(w * seconds for w, (_, seconds) in zip(weights, known, strict=True)) / whole
    up = sum(w * (s - x) * (t - y) for w, (s, t) in zip(weights, known, strict=True))
    down = sum(w * (s - x) ** 2 for w, (s, _) in zip(weights, known, strict=True))
    slope = up / down if down > 0 else 0.0
    if slope <= 0:
        return None
    return Fit(max(y - slope * x, 0.0), 1 / slope)
