"""The schema that ``init`` writes is the published file, and the schema line names it."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Jobgen

PUBLISHED = Path(__file__).parents[2] / "schemas" / "job.schema.json"


def test_init_writes_the_published_schema(jobgen: Jobgen, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)\n")
    assert jobgen("init", "--yes").code == 0
    line = (tmp_path / "job.yaml").read_text().split("\n")[0]
    assert line == "# yaml-language-server: $schema=./job.schema.json"
    assert (tmp_path / "job.schema.json").read_bytes() == PUBLISHED.read_bytes()
