"""What holds for the text of every file in the repository."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OF_BYTES = {"jobgen/follow/lines.py"}
"""``bytes.splitlines`` splits at ``\\n`` and ``\\r`` only."""


def test_lines_of_foreign_text_end_at_line_feeds_only() -> None:
    """``str.splitlines`` also splits at U+0085, U+2028, form feeds and others, which a file name, a
    comment or a log may hold. ``shell.split_lines`` does not."""
    files = [*(ROOT / "jobgen").rglob("*.py"), *(ROOT / "examples").rglob("*.py")]
    assert len(files) > 300
    names = {str(f.relative_to(ROOT)) for f in files if ".splitlines(" in f.read_text("utf-8")}
    assert names == OF_BYTES
