"""What holds for the text of every file in the repository."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OF_BYTES = {"jobgen/follow/line_splitter.py"}
"""``bytes.splitlines`` splits at ``\\n`` and ``\\r`` only."""
PARTS = (
    "tests",
    "docs",
    "jobgen",
    "templates",
    "clusters",
    "examples",
    "scripts",
    "benchmarks",
    "requirements",
    ".ci",
)
REGISTRIES = re.compile(
    # written so that these lines do not name one themselves
    rb"\b(?:py[p]i\.[a-z.]+|files\.py[t]honhosted\.org|download\.py[t]orch\.org"
    rb"|[a-z.]*ana[c]onda\.(?:org|com)|registry\.n[p]mjs\.org|[c]rates\.io)\b"
)


def test_no_file_names_the_host_of_a_package_registry() -> None:
    """Packages come from where a site says; the source of a fact is a project or a document."""
    places = (ROOT, *(ROOT / part for part in PARTS))
    paths = {path for place in places for path in place.glob("*" if place == ROOT else "**/*")}
    texts = {p: p.read_bytes() for p in paths if p.is_file() and p.suffix != ".pyc"}
    assert len(texts) > 1500
    found = {str(path): match[0] for path in texts if (match := REGISTRIES.search(texts[path]))}
    assert found == {}


def test_lines_of_foreign_text_end_at_line_feeds_only() -> None:
    """``str.splitlines`` also splits at U+0085, U+2028, form feeds and others, which a file name, a
    comment or a log may hold. ``shell.split_lines`` does not."""
    files = [*(ROOT / "jobgen").rglob("*.py"), *(ROOT / "examples").rglob("*.py")]
    assert len(files) > 300
    names = {str(f.relative_to(ROOT)) for f in files if ".splitlines(" in f.read_text("utf-8")}
    assert names == OF_BYTES
