"""Tracebacks in other forms → the form in which Python prints them.

Those of exception groups stand behind bars, those of loguru have empty lines between their frames,
those of notebooks name the exception first, and a log in JSON holds one as a string.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence

from jobgen.named_tuple import NamedTuple

_BEGIN = "Traceback (most recent call last):"
_GROUP = re.compile(r"(?:  )*[+|] Exception Group Traceback \(most recent call last\):")
_RULER = re.compile(r"[ |+]*\+-[-+]*(?: \d+ -+)?$")
_BAR = re.compile(r"(?:  )*\| ?")
_LOGURU = re.compile(r'(?:> ?|  )?File "')
_VALUES = re.compile(r"\s+[│└]")
"""What loguru writes below a line of code: its variables."""
_NOTEBOOK = re.compile(r"(?P<name>[A-Za-z_][\w.]*) {2,}Traceback \(most recent call last\):?$")
_CELL = re.compile(
    r"(?:File )?(?P<path>[~/<][^\s:]+|(?:Cell )?In ?\[\d+\])(?::(?P<line>\d+)|, line \d+)?"
    r"(?:,? in (?P<name>[\w.<>]+).*)?:?$"
)
_ARROW = re.compile(r"-+> *(?P<line>\d+) (?P<code>.*)")
_MOST = 400
"""Lines of a notebook's traceback that are read."""
_ESCAPED = re.compile(r'Traceback \(most recent call last\):\\n(?:[^"\\]|\\.)*')
_HARMLESS = re.compile(
    r'"(?:level|levelname|severity|log_level)": ?"(?:debug|info|warn|warning)"', re.IGNORECASE
)


class Row(NamedTuple):
    """A line, and the place of the line that it is written from."""

    place: int
    text: str


def restore_tracebacks(texts: Iterable[str]) -> list[Row]:
    """The lines, with their tracebacks in Python's form.

    >>> [row.text for row in restore_tracebacks([
    ...     '{"error": "Traceback (most recent call last):\\\\nKeyError: 7"}'])]
    ['{"error": "', 'Traceback (most recent call last):', 'KeyError: 7', '']
    """
    rows = [Row(place, text) for place, text in enumerate(texts)]
    if not any("Traceback (most" in row.text for row in rows):
        return rows
    rows = [each for row in rows for each in _read_json(row)]
    return _read_notebooks(list(_read_loguru(list(_read_groups(rows)))))


def _read_json(row: Row) -> list[Row]:
    """The lines of a traceback that a string holds."""
    escaped = _ESCAPED.search(row.text)
    if escaped is None or _HARMLESS.search(row.text):
        return [row]
    try:
        lines = json.loads(f'"{escaped[0]}"').rstrip("\n").split("\n")
    except ValueError:  # cut off, or of another language than JSON
        return [row]
    return [Row(row.place, text) for text in (row.text[: escaped.start()], *lines, "")]


def _read_groups(rows: Iterable[Row]) -> Iterator[Row]:
    """Without the bars before the lines of an exception group."""
    inside = False
    for row in rows:
        if _GROUP.match(row.text):
            inside = True
            yield row._replace(text=_BEGIN)
        elif inside and _RULER.match(row.text):
            yield row._replace(text="")
        elif inside and (bar := _BAR.match(row.text)):
            yield row._replace(text=row.text[bar.end() :])
        else:
            inside = False
            yield row


def _read_loguru(rows: Sequence[Row]) -> Iterator[Row]:
    """Without empty lines between frames, and without the values of variables."""
    inside = False
    for at, row in enumerate(rows):
        if row.text.startswith(_BEGIN):
            following = [each.text for each in rows[at + 1 : at + 3]]
            inside = len(following) > 1 and not following[0].strip()
            inside = inside and _LOGURU.match(following[1]) is not None
            yield row
        elif not inside:
            yield row
        elif frame := _LOGURU.match(row.text):
            yield row._replace(text=f'  File "{row.text[frame.end() :]}')
        elif row.text.strip() and not _VALUES.match(row.text):
            inside = row.text.startswith(" ")
            yield row


def _read_notebooks(rows: Sequence[Row]) -> list[Row]:
    """Each frame of a notebook's traceback by its place and the line that an arrow marks."""
    restored: list[Row] = []
    at = 0
    while at < len(rows):
        begin = _NOTEBOOK.match(rows[at].text)
        end = _find_end(rows, at, begin["name"]) if begin else None
        if end is None:
            restored.append(rows[at])
            at += 1
            continue
        restored.append(rows[at]._replace(text=_BEGIN))
        restored += _read_cells(rows[at + 1 : end])
        at = end
    return restored


def _find_end(rows: Sequence[Row], begin: int, name: str) -> int | None:
    """Where the exception stands below its frames."""
    for at in range(begin + 1, min(begin + _MOST, len(rows))):
        text = rows[at].text
        if text == name or text.startswith(f"{name}: "):
            return at
    return None


def _read_cells(rows: Iterable[Row]) -> Iterator[Row]:
    place, name = "", "<module>"
    for row in rows:
        if cell := _CELL.match(row.text):
            place, name = cell["path"], cell["name"] or "<module>"
        elif place and (arrow := _ARROW.match(row.text)):
            frame = f'  File "{place}", line {arrow["line"]}, in {name}'
            yield row._replace(text=frame)
            yield row._replace(text=f"    {arrow['code'].strip()}")
            place = ""
