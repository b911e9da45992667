"""Slurm's host lists: ``local[1-2,4]`` to names and back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_RANGES = re.compile(r"\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*")
_LIMIT = 65536


def expand(text: str) -> list[str]:
    """Every name, zero padding kept. ValueError on a malformed list.

    >>> expand('n[01-02,7]a[1-2],m')
    ['n01a1', 'n01a2', 'n02a1', 'n02a2', 'n7a1', 'n7a2', 'm']
    """
    names = [name for item in _items(text) for name in _item(item)]
    if len(names) > _LIMIT:
        raise ValueError(f"too many hosts: {text}")
    return names


def compress(numbers: Sequence[int], prefix: str = "local") -> str:
    """The shortest list of these nodes.

    >>> compress([1, 2, 4]), compress([3])
    ('local[1-2,4]', 'local3')
    """
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    if len(numbers) <= 1:
        return "".join(f"{prefix}{n}" for n in numbers)
    text = ",".join(f"{r[0]}-{r[-1]}" if len(r) > 1 else str(r[0]) for r in runs)
    return f"{prefix}[{text}]"


def _items(text: str) -> Iterator[str]:
    depth, item = 0, ""
    for sign in text:
        depth += {"[": 1, "]": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            yield item
            item = ""
        else:
            item += sign
    if depth:
        raise ValueError(f"unbalanced brackets: {text}")
    yield item


def _item(item: str) -> list[str]:
    names = [""]
    for part in re.split(r"(\[[^\]]*\])", item.strip()):
        choices = _range(part[1:-1]) if part.startswith("[") else [part]
        names = [name + choice for name in names for choice in choices]
        if len(names) > _LIMIT:
            raise ValueError(f"too many hosts: {item}")
    return [name for name in names if name]


def _range(text: str) -> list[str]:
    if not _RANGES.fullmatch(text):
        raise ValueError(f"not a range: [{text}]")
    names: list[str] = []
    for part in text.split(","):
        low, _, high = part.partition("-")
        last = int(high or low)
        if last - int(low) > _LIMIT:
            raise ValueError(f"too many hosts: [{text}]")
        names += [str(n).zfill(len(low)) for n in range(int(low), last + 1)]
    return names
