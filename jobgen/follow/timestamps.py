"""The time that a line of a log begins with, as programs and launchers write it.

A time without a zone is that of the node's clock; it is compared with others of the same job only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

_HEAD = rb"(?:\[?\w{1,12}\]?:?[ ]?)??[^\w\n]{0,2}"
"""What may stand before a time: ``[``, ``[rank0]:[``, ``INFO ``."""
_DATED = rb"\d{4}[-/]\d\d[-/]\d\d[T _]\d\d:\d\d:\d\d"
_SHORT = rb"[DIWEF]\d{4} \d\d:\d\d:\d\d"
"""glog's: the month and the day, and no year."""
# the line feed before it is a literal, which is searched for several times as fast as "^"
_TIME = re.compile(rb"\n" + _HEAD + rb"(" + _DATED + rb"|" + _SHORT + rb")(?:[.,](\d{1,9}))?")
_DAYS = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)
_DAY = 86_400.0


def find_times(data: bytes, year: int, step: float = 0.0) -> Iterator[tuple[int, float]]:
    """Where a line with a time begins, and that time in seconds since 1970; ``year`` is that of
    lines that state none. Of lines within ``step`` seconds of each other, the first."""
    known: dict[bytes, float] = {}
    last = -math.inf
    for found in _TIME.finditer(b"\n" + data):
        stamp, part = found.groups()
        time = known.get(stamp)
        if time is None:
            time = known[stamp] = _read_time(stamp, year)
        if part:
            time += float(b"0." + part)
        if not last <= time < last + step and not math.isnan(time):
            last = time
            yield found.start(), time


def _read_time(stamp: bytes, year: int) -> float:
    """The seconds of a stamp; not a number if there is no such date."""
    date, clock = stamp[:-9], stamp[-8:]
    if len(date) == 5:
        days = count_days(year, int(date[1:3]), int(date[3:]))
    else:
        days = count_days(int(date[:4]), int(date[5:7]), int(date[8:]))
    seconds = int(clock[:2]) * 3600 + int(clock[3:5]) * 60 + int(clock[6:])
    return math.nan if days is None else days * _DAY + seconds


def count_days(year: int, month: int, day: int) -> int | None:
    """The days from 1970 to a date; None for what is no date.

    >>> count_days(1970, 1, 1), count_days(2026, 11, 23), count_days(2026, 13, 1)
    (0, 20780, None)
    """
    if not (1970 <= year < 2200 and 1 <= month <= 12 and 1 <= day <= 31):
        return None
    past = year - 1 if month <= 2 else year
    leap = past // 4 - past // 100 + past // 400 - 477
    return (year - 1970) * 365 + leap + _DAYS[month - 1] + day - 1


def format_clock(time: float | None) -> str:
    """``15:03:56``; blank if the time is unknown."""
    if time is None:
        return " " * 8
    seconds = int(time) % int(_DAY)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
