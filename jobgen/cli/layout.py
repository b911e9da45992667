"""Text in columns: widths as a terminal counts them, tables, and sentences folded to a width."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def measure(text: str) -> int:
    """How many columns a terminal needs for this text."""
    if text.isascii():
        return len(text)
    import unicodedata

    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def pad(text: str, width: int) -> str:
    """The text with blanks up to a width."""
    return text + " " * (width - measure(text))


def clip(text: str, width: int) -> str:
    """The text, or its beginning and ``…``, in at most so many columns."""
    if measure(text) <= width:
        return text
    text = text[:width]
    while measure(text) > width - 1:
        text = text[:-1]
    return text + "…"


def fold(text: str, width: int, indent: str = "") -> str:
    """A sentence on lines of at most so many columns; ``indent`` is put before further lines.

    Neither a word nor a command is broken: what has to be copied stays in one piece.
    """
    text = _COMMAND.sub(lambda found: found[0].replace(" ", _JOINED), text)
    lines = [""]
    for word in text.split(" "):
        line = lines[-1]
        if line and measure(line) + 1 + measure(word) > width:
            lines.append(word)
        else:
            lines[-1] = f"{line} {word}" if line else word
    return f"\n{indent}".join(lines).replace(_JOINED, " ")


_COMMAND = re.compile(r"(?:(?<=: )|(?<=then )|(?<=with ))jobgen [^;()\n]*[^;()\s]|`[^`\n]+`")
"""A command in a sentence."""
_JOINED = "\0"


def align(rows: Iterable[Sequence[str]], *, gap: str = "  ", indent: str = "") -> str:
    """Rows in columns as wide as their widest cell; the last column is not padded."""
    rows = [tuple(row) for row in rows]
    if not rows:
        return ""
    widths = [max(map(measure, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [pad(cell, width) for cell, width in zip(row[:-1], widths[:-1], strict=True)]
        lines.append((indent + gap.join([*cells, row[-1]])).rstrip() + "\n")
    return "".join(lines)


_KEY, _VALUE, _WHY = 24, 12, 34
"""Columns: the widest key, the narrowest column of values, and what a why needs beside them."""
_NARROWEST = 20
"""Columns: a why with fewer beside the value stands below it."""


def fold_rows(rows: Iterable[tuple[str, str, str]], width: int, *, indent: str = "  ") -> str:
    """Rows of key, value and why. The why is folded beside the value, or below a long one."""
    rows = list(rows)
    if not rows:
        return ""
    first = min(max(measure(key) for key, _, _ in rows), _KEY)
    left = measure(indent) + first + 2
    most = max(width - left - 2 - _WHY, _VALUE)
    second = min(max(measure(value) for _, value, _ in rows), most)
    return "".join(
        f"{indent}{_described(row, (first, second), left, width)}\n".rstrip(" ") for row in rows
    )


def _described(row: tuple[str, str, str], widths: tuple[int, int], left: int, width: int) -> str:
    (key, value, why), (first, second) = row, widths
    beside = left + second + 2
    if measure(key) <= first and measure(value) <= second and width - beside >= _NARROWEST:
        text = fold(why, width - beside, " " * beside)
        return f"{pad(key, first)}  {pad(value, second)}  {text}".rstrip()
    below = " " * left
    text = f"\n{below}{fold(why, width - left, below)}" if why else ""
    return f"{pad(key, first)}  {value}{text}"


def write_hours(hours: float, digits: int = 3) -> str:
    """Hours for people, never with an exponent: ``2.67``, ``64``, ``24,576``, ``<0.01``."""
    if 0 < hours < 0.005:
        return "<0.01"
    text = f"{hours:,.{max(digits - len(str(int(hours))), 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_percent(part: float) -> str:
    """``37 %``; a small part that is not nothing is ``<1 %``."""
    if 0 < part < 0.005:
        return "<1 %"
    return f"{part * 100:.0f} %"


def format_size(amount: float) -> str:
    """Bytes for people: ``2.1 MiB``."""
    from jobgen.model.units import scale_size

    amount, unit = scale_size(amount)
    return f"{int(amount)} B" if unit == "B" else f"{amount:.1f} {unit}"


def format_span(seconds: float | None) -> str:
    """A length of time for people, in its two largest parts: ``1h12m``, ``3m05s``, ``-``."""
    if seconds is None:
        return "-"
    whole = max(int(seconds), 0)
    days, hours, minutes = whole // 86400, whole // 3600 % 24, whole // 60 % 60
    if days:
        return f"{days}d{hours:02}h"
    if hours:
        return f"{hours}h{minutes:02}m"
    return f"{minutes}m{whole % 60:02}s" if minutes else f"{whole}s"
