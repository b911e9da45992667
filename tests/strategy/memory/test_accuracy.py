"""How near the planner comes to published measurements: ``benchmarks/planner_accuracy.py``."""

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
MEDIAN, P90, OF_A_SOURCE = 8, 18, 15
"""Per cent. Published runs of the same configuration differ by 8 to 15 themselves."""
MANY = 10
"""Rows from which a source counts by itself."""


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


@cache
def rows() -> list[Any]:
    """All published runs."""
    with ROWS.open(newline="", encoding="utf-8") as file:
        return [benchmark().row(line) for line in csv.DictReader(file)]


def test_memory_is_near_what_was_measured() -> None:
    scored = benchmark().memory(rows())
    found = benchmark().summary(scored)
    assert found["rows"] >= 150
    assert found["median_pct"] <= MEDIAN
    assert found["p90_pct"] <= P90


def test_no_source_of_many_rows_is_far_off() -> None:
    sources = benchmark().by_source(benchmark().memory(rows()))
    many = {name: found for name, found in sources.items() if found["rows"] >= MANY}
    assert len(many) >= 5
    assert {name for name, found in many.items() if found["median_pct"] > OF_A_SOURCE} == set()


def test_the_score_does_not_hang_on_one_source() -> None:
    scored = benchmark().memory(rows())
    for source, rest in benchmark().leave_one_out(scored).items():
        own = sum(one.row.source == source for one in scored)
        assert rest["rows"] + own == len(scored)
        assert rest["median_pct"] <= MEDIAN, source


def test_what_died_is_never_said_to_fit_and_what_ran_nearly_always() -> None:
    found = benchmark().fits(rows())
    assert found["oom_rows"] >= 10
    assert found["oom_called_fits"] == 0
    assert found["ran_rows"] >= 150
    assert found["ran_called_fits_rate"] >= 0.95
