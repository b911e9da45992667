"""Lines of the keys of a JSON text, for messages about it."""

from __future__ import annotations

import re
from collections.abc import Mapping

_MARK = r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|\n'


def index_lines(text: str) -> Mapping[tuple[str, ...], int]:
    """Key of a JSON text → its line. Keys inside lists are not told apart."""
    found: dict[tuple[str, ...], int] = {}
    line, held, last = 1, [""], ""
    for mark in re.findall(_MARK, text):
        if mark == "\n":
            line += 1
        elif mark in "{[":
            held.append("")
        elif mark in "}]":
            held.pop()
        elif mark == ":":
            held[-1] = last[1:-1]
            found.setdefault(tuple(name for name in held[1:] if name), line)
        last = mark if mark.startswith('"') else last
    return found
