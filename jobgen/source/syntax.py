"""What a YAML parser's complaint means for the person who wrote the file."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from jobgen.errors import Diagnostic, Place
from jobgen.source.characters import SHOWN

if TYPE_CHECKING:
    import yaml

# What libyaml says → what it means, and what to do. {0} is the character there.
_MEANING = {
    "mapping values are not allowed": (
        "a ':' stands where no key can be",
        "quote a value that holds ': ', and look at the indentation",
    ),
    "could not find expected ':'": ("a key without ':'", "write key: value"),
    "did not find expected key": (
        "this line belongs to nothing",
        "look at the indentation of this line and the one above",
    ),
    "did not find expected '-' indicator": (
        "this line is no item of the list above",
        "look at the indentation",
    ),
    "did not find expected ',' or ']'": (
        "the list is not closed",
        "add ], or quote a value that holds [ or ,",
    ),
    "did not find expected ',' or '}'": (
        "the mapping is not closed",
        "add }, or quote a value that holds { or ,",
    ),
    "found unexpected end of stream": (
        "a quotation mark is never closed",
        "close it, or use the other kind of quotes around the value",
    ),
    "found unexpected document indicator": (
        "a quotation mark is never closed",
        "close it before ---",
    ),
    "found unknown escape character": (
        "an escape that YAML does not know",
        "use 'single quotes': nothing is escaped there",
    ),
    "expected alphabetic or numeric character": (
        "a value cannot start with * or &",
        "quote it, as in '*.pt'",
    ),
    "block sequence entries are not allowed": (
        "a list item stands where none can be",
        "put the list on its own lines",
    ),
    "found character that cannot start any token": (
        "a value cannot start with {0}",
        "quote it",
    ),
    "did not find expected <document start>": (
        "text after the end of the mapping",
        "every line is key: value",
    ),
}


_INSIDE = (
    "the value ended before this",
    "quote the whole value; a quote inside 'single quotes' is doubled: 'it''s'",
)
_AT_ITS_START = ("closed", "without ':'")
"""What is seen only at a later line than the one to mend."""
_BRACES = "quote a value that holds ${…} inside { } or [ ], as in '${NAME}'"


def explain_error(error: yaml.YAMLError, label: str, text: str) -> tuple[list[Diagnostic], bool]:
    """The problems behind the parser's error, and whether it was a tab in an indentation."""
    mark = getattr(error, "problem_mark", None)
    said = str(getattr(error, "problem", None) or error).split("\n", maxsplit=1)[0]
    if mark is None:
        return [Diagnostic("J105", f"this is no YAML: {said}", Place(label))], False
    lines = text.split("\n")
    line = lines[mark.line] if mark.line < len(lines) else ""
    blank = line[: len(line) - len(line.lstrip())]
    char = line[mark.column : mark.column + 1]
    place = Place(label, mark.line + 1, mark.column + 1)
    if "\t" in blank:
        return _tabs(lines, mark.line, label), True
    if char == "\t":
        message = "a tab cannot stand here; YAML takes spaces only"
        return [Diagnostic("J106", message, place, "replace the tab by spaces")], False
    message, hint = _meaning(said, inside=mark.column > len(blank))
    also: tuple[Place, ...] = ()
    opening = getattr(error, "context_mark", None)
    if opening is not None and any(word in message for word in _AT_ITS_START):
        also = (place,) if opening.line != mark.line else ()
        place = Place(label, opening.line + 1, opening.column + 1)
        line = lines[opening.line]
    hint = _BRACES if "${" in line and "closed" in message else hint
    told = message.replace("{0}", char) + _odd(line)
    return [Diagnostic("J105", told, place, hint, also=also)], False


def _meaning(said: str, *, inside: bool) -> tuple[str, str]:
    """What the parser's sentence means, and what to do; ``inside`` a line, not at its start."""
    for sign, meaning in _MEANING.items():
        if sign in said:
            return _INSIDE if inside and sign == "did not find expected key" else meaning
    return f"this is no YAML: {said}", "look at this line and the one above"


def _odd(line: str) -> str:
    """A remark on blanks in the line that look like spaces and are none."""
    odd = next((c for c in line if c != " " and unicodedata.category(c) == "Zs"), "")
    return f" (the line holds U+{ord(odd):04X}, a blank that is no space)" if odd else ""


def expand_tabs(text: str) -> str:
    """The text with two spaces for every tab of an indentation."""
    return re.sub(r"(?m)^[ \t]+", lambda m: m.group().replace("\t", "  "), text)


def _tabs(lines: list[str], first: int, label: str) -> list[Diagnostic]:
    """The line that the parser stumbled over, and those below that a tab indents too."""
    more = (n for n in range(first + 1, len(lines)) if re.match(r" *\t[ \t]*\S", lines[n]))
    numbers = [first, *more][:SHOWN]
    message, hint = "a tab indents this line; YAML takes spaces only", "replace the tab by spaces"
    return [Diagnostic("J106", message, Place(label, n + 1, 1), hint) for n in numbers]
