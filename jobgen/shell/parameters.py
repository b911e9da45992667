"""What is wrong with shell text before any of it runs: an open quote, arguments that it has not."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobgen.shell.shellwords import Reader, Word
from jobgen.shell.simple_commands import read_script

_ARGUMENT = re.compile(r"\$(?:[1-9@*]|\{(?:[1-9][0-9]*|[@*])(?![:]?[-=+])[^}]*\})")
_DEEPEST = 8


def find_open_quote(text: str) -> int | None:
    """Where a quote stands that nothing closes."""
    reader = Reader(text)
    for _ in reader.pieces():
        pass
    return reader.open_quote


def find_arguments(text: str) -> Iterator[Word]:
    """``$1``, ``"$@"`` and the like where no ``set --`` and no function gives them a value.

    >>> [w.text for w in find_arguments('echo $1 "${2}" ${3:-x} $(basename "$@") ' + "'$4'")]
    ['$1', '${2}', '$@']
    >>> [w.text for w in find_arguments('f() { echo $1; }; f a; set -- b; echo $1')]
    []
    """
    if "$" not in text:
        return
    script = read_script(text)
    sets = (c.words[0].start for c in script.commands if _sets_arguments(c.words))
    end = min(sets, default=len(text))
    for word in _arguments(text, 0, 0):
        inside = any(start <= word.start < stop for start, stop in script.functions)
        if word.start < end and not inside:
            yield word


def _sets_arguments(words: tuple[Word, ...]) -> bool:
    """``set -- a b``, but not ``set -eo pipefail``."""
    if words[0].text != "set":
        return False
    option = ""
    for word in words[1:]:
        if word.text == "--":
            return True
        if not word.text.startswith(("-", "+")) and not option.endswith("o"):
            return True
        option = word.text if word.text.startswith(("-", "+")) else ""
    return False


def _arguments(text: str, shift: int, depth: int) -> Iterator[Word]:
    reader = Reader(text)
    for _ in reader.pieces():
        pass
    for word in sorted(reader.expansions, key=lambda w: w.start):
        if _ARGUMENT.fullmatch(word.text):
            yield word._replace(start=word.start + shift, end=word.end + shift)
        elif word.text.startswith(("$(", "`")) and depth < _DEEPEST:
            skip = 1 if word.text.startswith("`") else 2
            inner = word.text[skip:].removesuffix(word.text[0] if skip == 1 else ")")
            yield from _arguments(inner, shift + word.start + skip, depth + 1)
