"""Sizes of messages as people write them: ``1M..1G``, ``64K,16M``."""

from __future__ import annotations

import re

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_SIZE = re.compile(r"(\d{1,12})([KMG]?)(?:i?B)?", re.IGNORECASE | re.ASCII)
LEAST, MOST = 4, 64 << 30
"""Bytes: one element of fp32, and more than any GPU could hold twice."""
_COUNT = 40


def parse(text: str) -> tuple[int, ...]:
    """Bytes, growing. ``A..B`` or ``A:B`` doubles from A to B, as nccl-tests' -f 2 does.

    K, M and G are powers of 1024. Raises ValueError, whose text says what was expected.
    """
    span = re.fullmatch(r"(.+?)(?:\.\.|:)(.+)", text.strip())
    if span:
        low, high = (_one(word) for word in span.groups())
        if low > high:
            raise ValueError(f"{text} is backwards: {span[1]} is more than {span[2]}")
        found = [low]
        while found[-1] * 2 <= high:
            found.append(found[-1] * 2)
        if found[-1] != high:
            found.append(high)
        return tuple(found)
    found = sorted({_one(word) for word in text.split(",")})
    if len(found) > _COUNT:
        raise ValueError(f"expected at most {_COUNT} sizes")
    return tuple(found)


def _one(word: str) -> int:
    match = _SIZE.fullmatch(word.strip())
    if match is None:
        raise ValueError("expected sizes such as 1M..1G or 64K,16M")
    size = int(match[1]) * _UNITS[match[2].upper()]
    if not LEAST <= size <= MOST:
        raise ValueError(f"expected sizes from {LEAST} bytes to {MOST >> 30}G")
    return size
