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
SPEED = "tokens_per_second"
STEPS = ("step_s", "data_s", "comm_s")
"""Seconds of a step, and of it those spent waiting for data and for others. A list of them, one for
each step, becomes its median, as KEY; beside it KEY_p10 and KEY_p90 (``step_p10_s``)."""

EXPECTED = "expected"
"""Where a run's record keeps what was expected, under the keys of a report."""


def record_estimate(estimate: Estimate | None) -> dict[str, Any]:
    """For the record of a run: its expected peak; nothing where none is known."""
    if estimate is None:
        return {}
    sizes = {ALLOCATED: estimate.allocated, RESERVED: estimate.reserved}
    return {EXPECTED: {key: round(size) for key, size in sizes.items()}}


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
