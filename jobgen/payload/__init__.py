"""What runs on the login host or inside the job, as files."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def text(name: str) -> str:
    """The text of one of these files, as it ships."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")
