"""``nvidia-smi --query-gpu=… --format=csv``, with and without header and units.

Source of the fields: ``nvidia-smi --help-query-gpu``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from jobgen.survey.hardware.text import lines, number

_NOTHING = {
    "",
    "n/a",
    "not supported",
    "unknown error",
    "gpu requires reset",
    "insufficient permissions",
}
_NOTHING |= {"not found", "not available", "requested functionality has been deprecated"}
_HEADING = re.compile(r"([a-z][a-z0-9_.]{0,80})( \[[A-Za-z0-9/%.]{1,16}\])?")
MOST = 1024
"""Rows and columns that are read."""


class Reading(NamedTuple):
    """One cell: as printed, as a number where it is one, and its unit (MiB, W, %, MHz).

    ``text`` is '' where the GPU says nothing: N/A, [Not Supported]. ``error`` is what it says
    instead of a value when something is broken: ERR!, [Unknown Error], [GPU requires reset].
    """

    text: str = ""
    number: float | None = None
    unit: str = ""
    error: str = ""


def parse(text: str, names: Sequence[str] = ()) -> tuple[Mapping[str, Reading], ...]:
    """One mapping a GPU, from field to reading; ``names`` are the fields asked for, for noheader.

    A row with another number of cells than fields is left out: it is not a row of this table.
    """
    found: list[Mapping[str, Reading]] = []
    heads = tuple(names)
    units: tuple[str, ...] = ("",) * len(heads)
    for line in lines(text):
        cells = [cell.strip() for cell in line.split(",")][:MOST]
        matches = [_HEADING.fullmatch(cell) for cell in cells]
        if all(matches) and (len(cells) > 1 or cells[0] in heads or not heads):
            heads = tuple(m[1] for m in matches if m)
            units = tuple((m[2] or "").strip(" []") for m in matches if m)
        elif heads and len(cells) == len(heads) and len(found) < MOST:
            row = zip(heads, cells, units, strict=True)
            found.append({head: reading(cell, unit) for head, cell, unit in row})
    return tuple(found)


def reading(cell: str, unit: str = "") -> Reading:
    """A cell as a reading: ``81559 MiB``, ``0 %``, ``[N/A]``, ``0x0000000000000001``."""
    bare = cell.strip("[]").strip()
    if bare.lower() in _NOTHING:
        broken = bare.lower() in ("unknown error", "gpu requires reset")
        return Reading(error=bare if broken else "")
    if bare.rstrip("!").lower() == "err":
        return Reading(error=bare)
    first, _, rest = bare.partition(" ")
    value = number(first)
    if value is not None and len(rest) <= 8 and " " not in rest:
        return Reading(bare, value, rest or unit)
    if re.fullmatch(r"0x[0-9a-fA-F]{1,16}", bare):
        return Reading(bare, float(int(bare, 16)), "")
    return Reading(bare)
