"""Array indexes as ``sbatch --array`` takes them: how many elements, and how many at once."""

from __future__ import annotations

import re
from collections.abc import Iterable

from jobgen.model.units import UnitError, clip
from jobgen.named_tuple import NamedTuple

LARGEST = 4_000_000
"""Slurm's MaxArraySize is at most 4000001, and an index is below it."""

_RANGE = r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?"
ARRAY_FORM = "for example 0-35, 1,3,5-7 or 0-99:2%4 (at most 4 at once)"


class ArraySize(NamedTuple):
    """The size of a job array."""

    elements: int
    at_once: int | None = None
    """The limit after ``%``; None without one."""

    def describe(self) -> str:
        """The size in words.

        >>> ArraySize(36, 4).describe()
        '36 elements, at most 4 at once'
        """
        text = f"{self.elements:,} element{'' if self.elements == 1 else 's'}"
        return text if self.at_once is None else f"{text}, at most {self.at_once} at once"


def measure_array(text: str) -> ArraySize:
    """The size of the array that these indexes make. Raises UnitError.

    >>> measure_array("0-35%4"), measure_array("1,3,5-9:2,5").elements
    (ArraySize(elements=36, at_once=4), 5)
    """
    indexes, percent, limit = text.partition("%")
    if percent and not re.fullmatch(r"0*[1-9]\d{0,8}", limit, re.ASCII):
        raise _refuse(text, "expected a number of elements after %")
    chosen = bytearray(LARGEST + 1)
    for part in indexes.split(","):
        span = _read_range(text, part)
        chosen[span.start : span.stop : span.step] = b"\1" * len(span)
    return ArraySize(chosen.count(1), int(limit) if percent else None)


def read_indexes(text: str) -> tuple[int, ...]:
    """The indexes that ``3,7-9`` names, in order. Raises UnitError."""
    return tuple(sorted({index for part in text.split(",") for index in _read_range(text, part)}))


def fold_indexes(indexes: Iterable[int]) -> str:
    """Ordered numbers as people write them.

    >>> fold_indexes([0, 1, 2, 5, 7, 8])
    '0-2,5,7-8'
    """
    spans: list[list[int]] = []
    for index in indexes:
        if spans and index == spans[-1][1] + 1:
            spans[-1][1] = index
        else:
            spans.append([index, index])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


def split_elements(ref: str) -> tuple[str, tuple[int, ...]]:
    """A job, and the elements of it that are meant; none: all of it. Raises UnitError.

    >>> split_elements("scan-1[3,7-9]"), split_elements("scan-1")
    (('scan-1', (3, 7, 8, 9)), ('scan-1', ()))
    """
    name, bracket, rest = ref.partition("[")
    if not bracket:
        return ref, ()
    if not rest.endswith("]"):
        raise UnitError("J000", f"'{clip(ref)}' has no closing ]", f"such as {name}[3,7-9]")
    return name, read_indexes(rest.removesuffix("]"))


def _read_range(text: str, part: str) -> range:
    match = re.fullmatch(_RANGE, part, re.ASCII)
    if match is None:
        raise _refuse(text, f"'{clip(part)}' is neither an index nor a range")
    first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
    if last < first:
        raise _refuse(text, f"{part} is reversed")
    if last > LARGEST:
        raise _refuse(text, f"index {last} exceeds {LARGEST}, the highest limit of any site")
    if step < 1:
        raise _refuse(text, f"{part}: the step must be at least 1")
    return range(first, last + 1, step)


def _refuse(text: str, message: str) -> UnitError:
    return UnitError("J143", f"{message}, in '{clip(text)}'", ARRAY_FORM)
