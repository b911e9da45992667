"""Shell text made of words, never of f-strings; and what a command gave back."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from jobgen.named_tuple import NamedTuple

_NAME = re.compile(r"\$(?:\$|([A-Za-z_][A-Za-z0-9_]*))")


class Raw(str):
    """Text that goes to the shell as it is. Visible in review; never holds user data."""

    __slots__ = ()


Word = str | Raw


def quote(word: Word) -> str:
    """One POSIX shell word that means exactly these characters."""
    if isinstance(word, Raw):
        return str(word)
    return shlex.quote(str(word))


def quote_path(path: str) -> str:
    """A path as one word for a POSIX shell, which still expands a leading ``~/``."""
    return f"~/{quote(path[2:])}" if path[:2] == "~/" and path[2:] else quote(path)


class Command(NamedTuple):
    """A command as words. ``str()`` is quoted text for a POSIX shell, secrets masked."""

    words: tuple[Word, ...]

    @classmethod
    def of(cls, *words: Word) -> Command:
        """A command of these words."""
        return cls(words)

    def __str__(self) -> str:
        return " ".join(quote(w) for w in self.words)


class Result(NamedTuple):
    """What a command gave back. Bytes, because the other side may send anything."""

    code: int
    out: bytes = b""
    err: bytes = b""

    @property
    def text(self) -> str:
        """The output as text; bytes that are no UTF-8 become U+FFFD."""
        return self.out.decode("utf-8", "replace")

    @property
    def error_text(self) -> str:
        """The error output as text."""
        return self.err.decode("utf-8", "replace")


def split_lines(text: str) -> list[str]:
    r"""The lines of a file, or of what a command printed, without their ends.

    Only a line feed ends a line, with or without a carriage return before it. ``str.splitlines``
    also splits at U+0085, U+2028, form feeds and others, which names and comments may hold.

    >>> split_lines('a\u2028b\r\n\nc')
    ['a\u2028b', '', 'c']
    """
    lines = text.removesuffix("\n").split("\n") if text else []
    return [line.removesuffix("\r") for line in lines]


def build_script(text: str, *args: Word) -> str:
    """A POSIX sh script whose ``$1 $2 …`` are these words, whatever bytes they hold."""
    return f"set -- {' '.join(quote(a) for a in args)}\n{text}" if args else text


def quote_expandable(value: str) -> str:
    r"""One shell word in which only ``$NAME`` expands and ``$$`` is a dollar; all else is literal.

    >>> quote_expandable('/scratch/$USER/a b')
    '"/scratch/${USER}/a b"'
    >>> quote_expandable('cost $$5 `id` "x"')
    '"cost \\$5 \\`id\\` \\"x\\""'
    >>> quote_expandable('plain-value')
    'plain-value'
    """
    if "$" not in value:
        return shlex.quote(value)
    parts, end = [], 0
    for match in _NAME.finditer(value):
        parts += [_escape(value[end : match.start()]), _variable(match.group(1))]
        end = match.end()
    return '"' + "".join([*parts, _escape(value[end:])]) + '"'


def list_names(value: str) -> tuple[str, ...]:
    """The names that ``quote_expandable`` would expand in this value, in order."""
    return tuple(m.group(1) for m in _NAME.finditer(value) if m.group(1))


def _variable(name: str | None) -> str:
    return "${" + name + "}" if name else "\\$"


def _escape(text: str) -> str:
    return re.sub(r'([\\"`$])', r"\\\1", text)


def join(words: Sequence[Word]) -> str:
    """Quoted text of these words."""
    return str(Command(tuple(words)))
