"""Text in columns: widths as a terminal counts them, tables, and sentences folded to a width."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def columns(text: str) -> int:
    """How many columns a terminal needs for this text."""
    if text.isascii():
        return len(text)
    import unicodedata

    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def pad(text: str, width: int) -> str:
    """The text with blanks up to a width."""
    return text + " " * (width - columns(text))


def clip(text: str, width: int) -> str:
    """The text, or its beginning and ``…``, in at most so many columns."""
    if columns(text) <= width:
        return text
    while text and columns(text) > width - 1:
        text = text[:-1]
    return text + "…"


def fold(text: str, width: int, indent: str = "") -> str:
    """A sentence on lines of at most so many columns, further lines indented.

    A word is never broken: what has to be copied stays in one piece.
    """
    lines = [""]
    for word in text.split(" "):
        line = lines[-1]
        room = width - (columns(indent) if len(lines) > 1 else 0)
        if line and columns(line) + 1 + columns(word) > room:
            lines.append(word)
        else:
            lines[-1] = f"{line} {word}" if line else word
    return f"\n{indent}".join(lines)


def table(rows: Iterable[Sequence[str]], *, gap: str = "  ", indent: str = "") -> str:
    """Rows in columns as wide as their widest cell; the last column is not padded."""
    rows = [tuple(row) for row in rows]
    if not rows:
        return ""
    widths = [max(map(columns, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [pad(cell, width) for cell, width in zip(row[:-1], widths[:-1], strict=True)]
        lines.append((indent + gap.join([*cells, row[-1]])).rstrip() + "\n")
    return "".join(lines)


def described(rows: Iterable[tuple[str, str, str]], width: int, *, indent: str = "  ") -> str:
    """Rows of key, value and why, the why folded beneath itself, or below where it is too long."""
    rows = list(rows)
    if not rows:
        return ""
    first = min(max(columns(key) for key, _, _ in rows), 24)
    second = min(max(columns(value) for _, value, _ in rows), 28)
    left = columns(indent) + first + 2
    lines = []
    for key, value, why in rows:
        head = f"{indent}{pad(key, first)}  {pad(value, second)}"
        room = width - columns(head) - 2
        if columns(key) > first or columns(value) > second or room < 24:
            lines.append(head.rstrip())
            lines.append(" " * left + fold(why, width - left, " " * left) if why else "")
        else:
            lines.append(f"{head}  {fold(why, room, ' ' * (columns(head) + 2))}".rstrip())
    return "".join(line + "\n" for line in lines if line)


def count(number: int, word: str, many: str = "") -> str:
    """``1 file``, ``2 files``."""
    return f"{number} {word if number == 1 else many or word + 's'}"


def size(amount: float) -> str:
    """Bytes for people: ``2.1 MiB``."""
    if amount < 1024:
        return f"{int(amount)} B"
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        amount /= 1024
        if amount < 1023.95 or unit == "TiB":
            break
    return f"{amount:.1f} {unit}"


def span(seconds: float | None) -> str:
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
