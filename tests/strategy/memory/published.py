"""The published runs that the planner is held to, and the scripts that read and score them."""

from __future__ import annotations

import csv
import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[3]
ROWS = ROOT / "tests" / "facts" / "planner_measurements.csv"


@cache
def benchmark() -> ModuleType:
    """The script, which is no module of a package and imports its neighbour."""
    path = ROOT / "benchmarks" / "planner_accuracy.py"
    spec = importlib.util.spec_from_file_location("planner_accuracy", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = [*sys.path]
    sys.path.insert(0, str(path.parent))
    sys.modules[spec.name] = module  # its NamedTuples look for their module
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path[:] = before
    return module


def score() -> ModuleType:
    """Its neighbour, which has the arithmetic."""
    module: ModuleType = benchmark().scores
    return module


def read_file(path: Path) -> list[Any]:
    """The published runs in one file."""
    found: list[Any] = benchmark().read_rows(path)
    return found


@cache
def rows() -> list[Any]:
    """All published runs that the planner was made with."""
    return read_file(ROWS)


def read(**changes: str) -> Any:
    """The first published run with other cells."""
    with ROWS.open(newline="", encoding="utf-8") as file:
        line = next(csv.DictReader(file))
    return benchmark().row({**line, **changes})
