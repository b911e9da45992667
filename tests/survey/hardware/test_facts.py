"""What real tools printed is read exactly: the value beside each file, and each cell of a table."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from jobgen.survey import hardware, slurm_site
from jobgen.survey.hardware import topo, topology
from tests.survey.facts import FACTS, PARSERS, files

HARDWARE = FACTS / "hardware"
PLAIN = {name: known for name, known in PARSERS.items() if name not in ("topo", "explained")}
CASES = [
    (name, path)
    for name, (_, pattern) in PLAIN.items()
    for path in files(pattern)
    if path.parent == HARDWARE or path.with_suffix(".json").exists()
]


def plain(value: Any) -> Any:
    """A value as JSON holds it, without what says nothing."""
    if hasattr(value, "_asdict"):
        told = {name: plain(v) for name, v in value._asdict().items()}
        return {k: v for k, v in told.items() if not (v in ("", [], {}) or v is None or v is False)}
    if isinstance(value, dict):
        keyed = {" ".join(k) if isinstance(k, tuple) else k: v for k, v in value.items()}
        return {key: plain(v) for key, v in keyed.items()}
    return [plain(v) for v in value] if isinstance(value, (tuple, list)) else value


@pytest.mark.parametrize(
    ("name", "path"), CASES, ids=lambda v: v.name if isinstance(v, Path) else v
)
def test_a_tool_is_read_exactly(name: str, path: Path) -> None:
    parse, _ = PARSERS[name]
    assert plain(parse(path.read_text())) == json.loads(path.with_suffix(".json").read_text())


@pytest.mark.parametrize("path", files("hardware/topo-*.txt"), ids=lambda p: p.name)
def test_a_topology_is_read_exactly(path: Path) -> None:
    expected = json.loads(path.with_suffix(".json").read_text())
    matrix = topo.parse(path.read_text())
    found = topology.explain(matrix)
    assert {
        "gpus": len(matrix.gpus),
        "nics": [matrix.get_device(nic) for nic in matrix.nics],
        "affinity": {gpu: list(where) for gpu, where in matrix.affinity.items()},
        "intra": found.intra,
        "pairs": dict(found.pairs),
        "ib_hca": found.ib_hca,
        "without": list(found.without),
        "near": {gpu.name: [gpu.link, *gpu.near] for gpu in found.gpus if gpu.link},
    } == expected


@pytest.mark.parametrize("path", files("hardware/topo-*.txt"), ids=lambda p: p.name)
def test_every_cell_of_a_topology_is_kept(path: Path) -> None:
    matrix = topo.parse(path.read_text())
    columns = [*matrix.gpus, *matrix.nics]
    rows = [line.split() for line in path.read_text().replace("SYSSYS", "SYS SYS").split("\n")]
    table = {row[0]: row[1:] for row in rows if row and row[0] in columns and row[1] not in columns}
    assert table
    for name, cells in table.items():
        assert [matrix.links[name, column] for column in columns] == cells[: len(columns)]
        told = [word for word in matrix.affinity.get(name, ()) if word]
        assert told == [word for word in cells[len(columns) :] if word != "N/A"]


def test_every_fact_names_its_source() -> None:
    with (HARDWARE / "sources.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["file"] for row in rows] == [path.name for path in files("hardware/*.txt")]
    assert all(row["source"] for row in rows)


def test_every_parser_has_a_real_text() -> None:
    assert {name for name, (_, pattern) in PARSERS.items() if not files(pattern)} == set()


def test_every_module_that_parses_is_tried() -> None:
    tools, answers = (Path(package.__path__[0]) for package in (hardware, slurm_site))
    parsers = [path for path in tools.glob("*.py") if "def parse(" in path.read_text()]
    parsers += [path for path in answers.glob("[a-z]*.py") if path.stem != "site"]
    tried = {parse.__module__.rpartition(".")[2] for parse, _ in PARSERS.values()}
    # a row may wrap its parser in a function
    tried.update(name for parse, _ in PARSERS.values() for name in parse.__code__.co_names)
    assert {path.stem for path in parsers} - tried == set()
