"""Slurm's ways of writing time."""

from __future__ import annotations

import re
import time

_LIMITS = (
    # minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]]
    (re.compile(r"(\d+)"), (60,)),
    (re.compile(r"(\d+):(\d+)"), (60, 1)),
    (re.compile(r"(\d+):(\d+):(\d+)"), (3600, 60, 1)),
    (re.compile(r"(\d+)-(\d+)"), (86400, 3600)),
    (re.compile(r"(\d+)-(\d+):(\d+)"), (86400, 3600, 60)),
    (re.compile(r"(\d+)-(\d+):(\d+):(\d+)"), (86400, 3600, 60, 1)),
)
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
_NOW = re.compile(r"now(?:\+(\d+)([a-z]*))?")
_STAMP = "%Y-%m-%dT%H:%M:%S"


def limit(text: str) -> int | None:
    """Seconds of ``--time``; None for no limit. ValueError for what is no time.

    >>> limit('90'), limit('1:30'), limit('1-12:00'), limit('UNLIMITED')
    (5400, 90, 129600, None)
    """
    if text.upper() in ("UNLIMITED", "INFINITE", "-1"):
        return None
    for pattern, weights in _LIMITS:
        match = pattern.fullmatch(text)
        if match:
            parts = zip(match.groups(), weights, strict=True)
            return sum(int(part) * weight for part, weight in parts) or None
    raise ValueError(text)


def begin(text: str, now: float) -> float:
    """Seconds since 1970 of ``--begin`` and of StartTime: ``now``, ``now+2hours``, a stamp."""
    match = _NOW.fullmatch(text)
    if match:
        unit = (match.group(2) or "second").rstrip("s")
        if unit not in _UNITS:
            raise ValueError(text)
        return now + int(match.group(1) or 0) * _UNITS[unit]
    for form in (_STAMP, "%Y-%m-%dT%H:%M", "%Y-%m-%d"):
        try:
            return time.mktime(time.strptime(text, form))
        except (ValueError, OverflowError):
            continue
    raise ValueError(text)


def clock(seconds: float) -> str:
    """As squeue writes a duration: ``0:04``, ``1:02:03``, ``1-02:03:04``."""
    days, hours, minutes, rest = _split(seconds)
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{rest:02}"
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def full(seconds: float) -> str:
    """As scontrol writes a duration: ``00:00:04``, ``1-02:03:04``."""
    days, hours, minutes, rest = _split(seconds)
    return f"{f'{days}-' if days else ''}{hours:02}:{minutes:02}:{rest:02}"


def stamp(when: float | None, missing: str = "N/A") -> str:
    """Local time as Slurm writes it."""
    return missing if not when else time.strftime(_STAMP, time.localtime(when))


def _split(seconds: float) -> tuple[int, int, int, int]:
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return days, hours, minutes, rest
