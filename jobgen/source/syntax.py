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
        "':' is not allowed here",
        "quote a value that contains ': ', and check the indentation",
    ),
    "could not find expected ':'": ("a key without ':'", "write key: value"),
    "did not find expected key": (
        "unexpected indentation",
        "check the indentation of this line and the previous one",
    ),
    "did not find expected '-' indicator": (
        "this line is not an item of the list above",
        "check the indentation",
    ),
    "did not find expected ',' or ']'": (
        "unclosed list",
        "add ], or quote a value that contains [ or ,",
    ),
    "did not find expected ',' or '}'": (
        "unclosed mapping",
        "add }, or quote a value that contains { or ,",
    ),
    "found unexpected end of stream": (
        "unclosed quotation mark",
        "close it, or use the other kind of quotes around the value",
    ),
    "found unexpected document indicator": (
        "unclosed quotation mark",
        "close it before ---",
    ),
    "found unknown escape character": (
        "unknown escape sequence",
        "use 'single quotes', which have no escapes",
    ),
    "expected alphabetic or numeric character": (
        "a value cannot start with * or &",
        "quote it, as in '*.pt'",
    ),
    "block sequence entries are not allowed": (
        "a list item is not allowed here",
        "put the list on its own lines",
    ),
    "found character that cannot start any token": (
        "a value cannot start with {0}",
        "quote it",
    ),
    "did not find expected <document start>": (
        "text after the end of the mapping",
        "write lines of the form key: value",
    ),
}


_INSIDE = (
    "the value already ended",
    "quote the whole value; double a quote inside 'single quotes': 'it''s'",
)
_INDENTED = ("mapping values are not allowed", "did not find expected key")
"""What libyaml says of a key that is indented more than the one above."""
_AT_ITS_START = ("closed", "without ':'")
"""What is seen only at a later line than the one to mend."""
_BRACES = "quote a value that contains ${…} inside { } or [ ], as in '${NAME}'"


def explain_error(error: yaml.YAMLError, label: str, text: str) -> tuple[list[Diagnostic], bool]:
    """The problems behind the parser's error, and whether it was a tab in an indentation."""
    mark = getattr(error, "problem_mark", None)
    said = str(getattr(error, "problem", None) or error).split("\n", maxsplit=1)[0]
    if mark is None:
        return [Diagnostic("J105", f"invalid YAML: {said}", Place(label))], False
    lines = text.split("\n")
    line = lines[mark.line] if mark.line < len(lines) else ""
    blank = line[: len(line) - len(line.lstrip())]
    char = line[mark.column : mark.column + 1]
    place = Place(label, mark.line + 1, mark.column + 1)
    if "\t" in blank:
        return _tabs(lines, mark.line, label), True
    if char == "\t":
        message = "tabs are not allowed here; use spaces"
        return [Diagnostic("J106", message, place, "replace the tab with spaces")], False
    if any(sign in said for sign in _INDENTED) and (above := _find_outdented(lines, mark.line)):
        message = f"line {mark.line + 1} is indented more than line {above}"
        place = Place(label, mark.line + 1, 1, len(blank) + 1)
        return [Diagnostic("J105", message + _odd(line), place, "indent both alike")], False
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


_KEY = re.compile(r"([ -]*)[\w.-]+:(?: |$)")


def _find_outdented(lines: list[str], number: int) -> int:
    """The line above a key that is indented less and has a value, counted from 1; 0 for none."""
    above = next((n for n in range(number - 1, -1, -1) if re.match(r" *[^ #]", lines[n])), None)
    if above is None:
        return 0
    key, other = _KEY.match(lines[number]), _KEY.match(lines[above])
    return above + 1 if key and other and len(key[1]) > len(other[1]) else 0


def _meaning(said: str, *, inside: bool) -> tuple[str, str]:
    """What the parser's sentence means, and what to do; ``inside`` a line, not at its start."""
    for sign, meaning in _MEANING.items():
        if sign in said:
            return _INSIDE if inside and sign == "did not find expected key" else meaning
    return f"invalid YAML: {said}", "check this line and the previous one"


def _odd(line: str) -> str:
    """A remark on blanks in the line that look like spaces and are none."""
    odd = next((c for c in line if c != " " and unicodedata.category(c) == "Zs"), "")
    return (
        f" (the line contains U+{ord(odd):04X}, which looks like a space but is none)"
        if odd
        else ""
    )


def expand_tabs(text: str) -> str:
    """The text with two spaces for every tab of an indentation."""
    return re.sub(r"(?m)^[ \t]+", lambda m: m.group().replace("\t", "  "), text)


def _tabs(lines: list[str], first: int, label: str) -> list[Diagnostic]:
    """The line that the parser stumbled over, and those below that a tab indents too."""
    more = (n for n in range(first + 1, len(lines)) if re.match(r" *\t[ \t]*\S", lines[n]))
    numbers = [first, *more][:SHOWN]
    message, hint = "tabs are not allowed in indentation; use spaces", "replace the tab with spaces"
    return [Diagnostic("J106", message, Place(label, n + 1, 1), hint) for n in numbers]
