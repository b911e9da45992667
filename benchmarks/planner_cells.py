"""Cells of published runs: numbers, yes and no, and the date of a source."""

from __future__ import annotations

import re
from collections.abc import Mapping


def read_number(text: str) -> float | None:
    """What a cell starts with: ``~1,024 (packed)`` is 1024."""
    found = re.match(r"[~≈\s]*([\d.,]+)", text)
    try:
        return float(found[1].replace(",", "")) if found else None
    except ValueError:
        return None


def read_count(text: str, default: int) -> int:
    """A count; nothing and 0 are one that is not stated."""
    return int(read_number(text) or 0) or default


def is_no(cell: str) -> bool:
    """Whether a cell says no; an empty one does not."""
    return cell.strip().lower() in {"0", "no", "none", "false", "off", "eager"}


def is_yes(cell: str) -> bool:
    """Whether a cell says yes, in any words that are not no."""
    return bool(cell.strip()) and not is_no(cell)


_OLD = re.compile(r"bigscience|april2021|SC21|blog pytorch-fsdp", re.IGNORECASE)
"""Sources of before 2023, whose torch was older than 1.13."""


def is_old(said: Mapping[str, str]) -> bool:
    """Whether a source is of before 2023."""
    return _OLD.search(said["source"]) is not None


def is_recent(said: Mapping[str, str], month: int = 1, year: int = 25) -> bool:
    """Whether a source has this month of a year or a later one in its name, or the year alone."""
    date = _date(said)
    return date is not None and date >= (year, month)


def is_dated_before(said: Mapping[str, str], month: int, year: int) -> bool:
    """Whether a source has an earlier month in its name."""
    date = _date(said)
    return date is not None and date < (year, month)


def _date(said: Mapping[str, str]) -> tuple[int, int] | None:
    """Year and month of a source, the last month where it names the year alone."""
    found = re.search(r"20(2\d)(?:-?([01]\d))?", said["source"])
    return (int(found[1]), int(found[2] or 12)) if found else None


def is_nemo(said: Mapping[str, str]) -> bool:
    """Whether a run is of NeMo's on Megatron; its AutoModel is transformers' models and FSDP2."""
    return "NVIDIA-NeMo" in said["source"] and "Automodel" not in said["source"]
