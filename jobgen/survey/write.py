"""A draft as the text of a profile: every line says how it was found."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from jobgen.survey.draft import Draft, Gap, Path, ProfileLine, Scalar

NEEDED = frozenset({("nodes", "gpu"), ("network", "fabric")})
"""Keys that a profile has to have where they apply: written as ``unknown`` until somebody knows."""
_PLAIN = re.compile(r"[A-Za-z_/$=^][A-Za-z0-9_./$,=@+-]*", re.ASCII)
_SPECIAL = frozenset({"true", "false", "yes", "no", "on", "off", "null", "unknown"})
_COLUMN = 40


def format_profile(head: Sequence[str], draft: Draft) -> str:
    """The profile: ``head`` and the notes as comments, then its lines."""
    said = [*head, *(f"note: {note}" for note in draft.notes)]
    comments = "".join(f"# {_comment(line)}\n" for line in said)
    return comments + "".join(f"{line}\n" for line in _lines(draft))


def _lines(draft: Draft) -> Iterator[str]:
    real = {
        one.path[:depth]
        for one in draft.entries
        if isinstance(one, ProfileLine) or one.path in NEEDED
        for depth in range(1, len(one.path))
    }
    before: Path = ()
    for one in draft.entries:
        for depth in range(1, len(one.path)):
            above = one.path[:depth]
            if before[:depth] != above:
                yield f"{_indent(above, commented=above not in real)}{above[-1]}:"
        before = one.path
        yield format_entry(one)


def format_entry(one: ProfileLine | Gap) -> str:
    """The line of one fact, or of what was not found."""
    if isinstance(one, ProfileLine):
        return _with(f"{_indent(one.path)}{one.path[-1]}: {_scalar(one.value)}", one.how)
    maybe = " or ".join(one.maybe)
    if one.path in NEEDED:
        end = f": {maybe}" if maybe else ""
        return _with(f"{_indent(one.path)}{one.path[-1]}: unknown", f"not found: {one.why}{end}")
    first, *others = one.maybe or ("…",)
    end = f"; or {', '.join(others)}" if others else ""
    shown = _comment(first) if one.maybe else "..."
    left = f"{_indent(one.path, commented=True)}{one.path[-1]}: {shown}"
    return _with(left, f"not found: {one.why}{end}")


def _indent(path: Path, *, commented: bool = False) -> str:
    blanks = "  " * (len(path) - 1)
    return f"# {blanks}" if commented else blanks


def _with(left: str, comment: str) -> str:
    return f"{left.ljust(_COLUMN)}  # {_comment(comment)}"


def _comment(words: str) -> str:
    """What stands behind a #: one line, ASCII, as other people's words may be in it."""
    shown = "".join(c if c.isprintable() else " " for c in words)
    return " ".join(shown.encode("ascii", "replace").decode().split())


def _scalar(value: Scalar) -> str:
    """A value as YAML reads it back, in quotes where it could be taken for another kind."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_scalar, value))}]"
    if isinstance(value, int):
        return str(value)
    measured = re.fullmatch(r"\d+MiB|[\d-]*\d\d:\d\d:\d\d", value, re.ASCII)
    if measured or (_PLAIN.fullmatch(value) and value.lower() not in _SPECIAL):
        return value
    return json.dumps(value)
