"""What a program reported of itself: the numbers of the file that ``JOBGEN_REPORT_FILE`` names."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence

LIMIT = 4096
"""Bytes of a report that are read; ``observe.sh`` sends no more."""
_MOST = 32
_KEY = re.compile(r"[a-z][a-z0-9_]{0,40}", re.ASCII)

ALLOCATED = "peak_allocated_bytes"
RESERVED = "peak_reserved_bytes"
SPEED = "tokens_per_second"


def report(texts: Sequence[str]) -> Mapping[str, float]:
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
            for key, value in list(said.items())[:_MOST]:
                if _KEY.fullmatch(key) and _number(value):
                    found[key] = max(value, found.get(key, value))
    return found


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
