"""The table of benchmarks has a row for all that ``benchmarks/`` compares, whatever the numbers."""

from __future__ import annotations

import importlib.util
import re
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
FACT = (
    '{"what": "w", "size": "s", "peer": "a | b", "unit": "s", "jobgen": 0.5, "beside": 2.0,'
    ' "exponent": 1.5, "left_out": ""}'
)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """scripts/benchmarks, which puts two folders on ``sys.path``."""
    path, before = ROOT / "scripts" / "benchmarks", [*sys.path]
    loader = SourceFileLoader("benchmarks_script", str(path))
    spec = importlib.util.spec_from_file_location(loader.name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    try:
        loader.exec_module(module)
        module.defined = {name: module.list_comparisons(name) for name in module.PROGRAMS}
    finally:
        sys.path[:] = before
    return module


def read_rows(text: str) -> list[list[str]]:
    """The cells of every line of a table, the heading first."""
    lines = [line for line in text.split("\n") if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_the_page_has_the_rows_that_benchmarks_define(script: ModuleType) -> None:
    head, line, *rows = read_rows(script.PAGE.read_text("utf-8"))
    assert head == list(script.HEAD)
    assert set("".join(line)) == {"-", ":"}
    defined = [
        [comparison.what, comparison.size, peer.replace("|", "\\|")]
        for comparisons in script.defined.values()
        for comparison in comparisons
        for peer in comparison.peers
    ]
    assert [row[:3] for row in rows] == defined, "run: make bench WRITE=1"
    assert len({tuple(each) for each in defined}) == len(defined)


def test_the_page_names_the_day_the_machine_and_the_versions(script: ModuleType) -> None:
    block = script.BLOCK.search(script.PAGE.read_text("utf-8"))
    assert block
    assert re.search(r"^\d{4}-\d\d-\d\d, \d+ cores \(.+\).*\. Versions: jobgen \d", block[0], re.M)


@pytest.fixture
def bench(script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script with one benchmark of one comparison, ``probe.py`` in ``tmp_path``."""
    comparison = script.Comparison("w", "s", ("a | b", "c"))
    monkeypatch.setattr(script, "FOLDER", tmp_path)
    monkeypatch.setattr(script, "list_comparisons", lambda program: [comparison])
    return script


def draw(bench: ModuleType, program: str) -> tuple[list[list[str]], str]:
    """The rows and the whole text of a table of one benchmark."""
    (bench.FOLDER / "probe.py").write_text(program)
    text = bench.draw_table({"probe": bench.run("probe", [])})
    return read_rows(text)[2:], text


def test_a_result_is_shown_with_its_ratio_first(
    bench: ModuleType, capfd: pytest.CaptureFixture[str]
) -> None:
    rows, _ = draw(bench, f"print('talk'); print({FACT!r})")
    assert rows[0] == ["w", "s", "a \\| b", "0.25x", "500 ms", "2.00 s", "1.50"]
    assert capfd.readouterr().out == "talk\n"


def test_a_benchmark_that_fails_is_shown_as_failed(bench: ModuleType) -> None:
    rows, text = draw(bench, f"print({FACT!r}, flush=True); raise SystemExit('no such peer')")
    assert [row[3] for row in rows] == ["0.25x", "failed"]
    assert "`probe.py` failed: exit code 1: no such peer" in text


def test_a_benchmark_that_hangs_is_ended(
    bench: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "LIMIT", 0.1)
    rows, text = draw(bench, "import time; time.sleep(600)")
    assert [row[3] for row in rows] == ["failed", "failed"]
    assert "exit code -9" in text


def test_what_is_left_out_shows_the_reason(bench: ModuleType) -> None:
    fact = FACT.replace('"left_out": ""', '"left_out": "no rsync"').replace("a | b", "c")
    rows, text = draw(bench, f"print({FACT!r}); print({fact!r})")
    assert [row[3] for row in rows] == ["0.25x", "left out"]
    assert "`probe.py` left rows out: no rsync" in text


def test_the_block_is_put_between_its_markers(script: ModuleType) -> None:
    page = "a\n<!-- benchmarks -->\nold\n<!-- end of benchmarks -->\nb\n"
    new = script.put(page, "new\\1\n")
    assert new == "a\n<!-- benchmarks -->\nnew\\1\n<!-- end of benchmarks -->\nb\n"
