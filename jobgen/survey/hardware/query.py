"""``nvidia-smi --query-gpu=… --format=csv,noheader``, with and without units.

Source of the fields: ``nvidia-smi --help-query-gpu``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jobgen.named_tuple import NamedTuple
from jobgen.survey.hardware.text import clean_lines, parse_number

_NOTHING = {
    "",
    "n/a",
    "not supported",
    "unknown error",
    "gpu requires reset",
    "insufficient permissions",
    "not found",
    "not available",
    "requested functionality has been deprecated",
    "err",
    "err!",
}
MOST = 1024
"""Rows that are read."""


class Reading(NamedTuple):
    """One cell: as printed, and as a number where it is one.

    ``text`` is '' where the GPU has no value: N/A, [Not Supported], ERR!, [GPU requires reset].
    """

    text: str = ""
    number: float | None = None


def parse(text: str, names: Sequence[str]) -> tuple[Mapping[str, Reading], ...]:
    """One mapping a GPU, from field to reading; ``names`` are the fields asked for.

    A row with another number of cells than fields is left out: it is not a row of this table.
    """
    rows = ([cell.strip() for cell in line.split(",")] for line in clean_lines(text))
    kept = [row for row in rows if len(row) == len(names)][:MOST]
    return tuple(dict(zip(names, map(parse_reading, row), strict=True)) for row in kept)


def parse_reading(cell: str) -> Reading:
    """A cell as a reading: ``81559 MiB``, ``0 %``, ``[N/A]``."""
    bare = cell.strip("[]").strip()
    if bare.lower() in _NOTHING:
        return Reading()
    first, _, unit = bare.partition(" ")
    return Reading(bare, parse_number(first) if len(unit) <= 8 and " " not in unit else None)
