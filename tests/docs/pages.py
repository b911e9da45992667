"""The pages of the documentation, and the blocks in them that are taken from files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES if page.exists()]

_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_TAKEN = re.compile(r"<!-- from: (\S+) -->\n```\w*\n(.*?)```\n", re.DOTALL)


def text(name: str) -> str:
    """A page as it is."""
    return (ROOT / name).read_text(encoding="utf-8")


def prose(name: str) -> str:
    """A page without its fenced blocks; every other line stays on its line."""
    return _FENCE.sub(lambda found: "\n" * found[0].count("\n"), text(name))


def taken(name: str) -> Iterator[tuple[str, str]]:
    """(file, block) of every block that says which file it is from."""
    for found in _TAKEN.finditer(text(name)):
        yield found[1], found[2]
