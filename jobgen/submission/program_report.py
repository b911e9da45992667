"""What a program reported of itself: the numbers of the file that ``JOBGEN_REPORT_FILE`` names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    from jobgen.model.plan import Estimate

_MOST = 32
_LARGEST = 1e300
_KEY = re.compile(r"[a-z][a-z0-9_]{0,40}", re.ASCII)

ALLOCATED = "peak_allocated_bytes"
RESERVED = "peak_reserved_bytes"
NVIDIA_SMI = "peak_nvidia_smi_bytes"
"""Expected, and seen by monitors: no program reports it."""
SPEED = "tokens_per_second"
STEP, TOKENS = "step_s", "tokens_per_step"
STEPS = (STEP, "data_s", "comm_s")
"""Seconds of a step, and of it those spent waiting for data and for others. A list of them, one for
each step, becomes its median, as KEY; beside it KEY_p10 and KEY_p90 (``step_p10_s``)."""

EXPECTED, GPU = "expected", "gpu"
"""Where a run's record keeps what was expected, under the keys of a report, and of which GPU."""


def record_estimate(estimate: Estimate | None) -> dict[str, Any]:
    """For the record of a run: its expected peak and step; nothing where none is known."""
    if estimate is None:
        return {}
    sizes = {
        ALLOCATED: estimate.allocated,
        RESERVED: estimate.reserved,
        NVIDIA_SMI: estimate.total,
    }
    told: dict[str, Any] = {key: round(size) for key, size in sizes.items()}
    if estimate.seconds:
        told |= {STEP: estimate.seconds, TOKENS: estimate.tokens}
    return {EXPECTED: {**told, GPU: estimate.gpu}}


def read_report(texts: Sequence[str]) -> Mapping[str, float]:
    """The numbers of the last report that is whole; what is no finite number is passed over.

    Of several tasks, or starts, the largest of each.
    """
    found: dict[str, float] = {}
    for text in texts:
        try:
            said = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(said, dict):
            for key, value in _numbers(said):
                found[key] = max(value, found.get(key, value))
    return found


def _numbers(said: Mapping[str, object]) -> Iterator[tuple[str, float]]:
    for key, value in list(said.items())[:_MOST]:
        if key in STEPS and isinstance(value, list):
            yield from _spread(key, [float(one) for one in value if _number(one)])
        elif _KEY.fullmatch(key) and _number(value):
            yield key, value


def _spread(key: str, seconds: list[float]) -> Iterator[tuple[str, float]]:
    """The median, and the values at a tenth and at nine tenths; nothing of an empty list."""
    if not seconds:
        return
    from statistics import median

    ordered, stem = sorted(seconds), key.removesuffix("_s")
    last = len(ordered) - 1
    yield key, median(ordered)
    yield f"{stem}_p10_s", ordered[round(0.1 * last)]
    yield f"{stem}_p90_s", ordered[round(0.9 * last)]


def _number(value: object) -> TypeGuard[float]:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    # a whole number may have more digits than a float can hold
    return abs(value) < _LARGEST
