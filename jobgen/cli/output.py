"""Standard output for data, standard error for talk; colour and width where they are wanted."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, TextIO

from jobgen.errors import Usage

if TYPE_CHECKING:
    from pathlib import Path

NARROWEST = 40

_SGR = {
    "error": "1;31",
    "warning": "1;33",
    "note": "1;36",
    "good": "32",
    "bad": "31",
    "busy": "33",
    "strong": "1",
    "faint": "2",
}
TIMES = "\u00d7"
"""The sign between nodes and GPUs."""
_ASCII = {TIMES: "x", "…": "...", "→": "->", "\u2013": "-", "·": "-", "█": "#", "░": "."}
_ASCII |= {"✓": "+", "✗": "x"}
_TO_ASCII = str.maketrans(_ASCII)


class Ink:
    """How a screen is drawn: with colours or without, and how wide it may be."""

    def __init__(self, *, colour: bool = False, width: int = 80) -> None:
        self.colour = colour
        self.width = width

    def __call__(self, style: str, text: str) -> str:
        """The text in that style; unchanged where there are no colours."""
        return f"\x1b[{_SGR[style]}m{text}\x1b[0m" if self.colour and text else text


def defuse(text: object) -> str:
    """Foreign text on one line, with nothing in it that a terminal would obey."""
    words = str(text)
    if words.isprintable():
        return words
    from jobgen.follow.sanitize import clean

    return clean(words).replace("\n", "\\n").replace("\t", "\\t")


class Output:
    """The two streams of the program, and how they may be written to."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self.environ = environ
        self.color = "auto"
        self.ascii = False
        self.quiet = 0
        for stream in (sys.stdout, sys.stderr):
            # a character that the terminal cannot show must not end the program
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")

    def write_text(self, text: str) -> None:
        """Write an answer to standard output."""
        sys.stdout.write(self._plain(text, sys.stdout))

    def write_bytes(self, data: bytes) -> None:
        """Write bytes to standard output exactly as they are."""
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def say(self, text: str, *, level: int = 1) -> None:
        """Write talk to standard error. ``-q`` drops level 1; ``-qq`` errors, level 2, too."""
        if self.quiet < level:
            sys.stdout.flush()
            sys.stderr.write(self._plain(text, sys.stderr) + "\n")
            sys.stderr.flush()

    def overwrite(self, text: str, *, last: bool = False) -> None:
        """Draw over the current line of standard error; ``last`` ends it. Only where ``live``."""
        sys.stderr.write(f"\r{self._plain(text, sys.stderr)}" + ("\n" if last else ""))
        sys.stderr.flush()

    @property
    def ink(self) -> Ink:
        """How to draw on standard output."""
        return self._ink(sys.stdout)

    @property
    def talk(self) -> Ink:
        """How to draw on standard error."""
        return self._ink(sys.stderr)

    @property
    def seen(self) -> bool:
        """Whether a person looks at standard output."""
        return is_tty(sys.stdout)

    @property
    def live(self) -> bool:
        """Whether a line on standard error may be drawn over."""
        return (
            is_tty(sys.stderr) and not self.environ.get("CI") and not self._dumb and not self.quiet
        )

    def _ink(self, stream: TextIO) -> Ink:
        return Ink(colour=self._coloured(stream), width=self._width(stream))

    def _coloured(self, stream: TextIO) -> bool:
        """The flag wins, then NO_COLOR, then FORCE_COLOR, then what the stream is."""
        if self.color != "auto":
            return self.color == "always"
        if self.environ.get("NO_COLOR"):
            return False
        if self.environ.get("FORCE_COLOR", "0") not in ("", "0"):
            return True
        return is_tty(stream) and not self._dumb

    @property
    def _dumb(self) -> bool:
        return self.environ.get("TERM") == "dumb"

    def _width(self, stream: TextIO) -> int:
        """Columns: as COLUMNS says, else the terminal's, else 80."""
        said = self.environ.get("COLUMNS", "")
        if said.isascii() and said.isdigit() and int(said):
            return max(int(said), NARROWEST)
        if is_tty(stream):
            return max(os.get_terminal_size(stream.fileno()).columns or 80, NARROWEST)
        return 80

    def _plain(self, text: str, stream: TextIO) -> str:
        narrow = (stream.encoding or "ascii").lower().replace("-", "") not in ("utf8", "utf8sig")
        return text.translate(_TO_ASCII) if self.ascii or narrow else text


def write_page(path: Path, text: str) -> None:
    """Write an HTML page or a picture. Raises Usage where it cannot be written."""
    from jobgen.app.world import write_regular

    try:
        write_regular(path, text.encode())
    except OSError as error:
        message = f"{path}: cannot be written: {error.strerror}"
        raise Usage(message, hint="name another file") from error


def is_tty(stream: TextIO) -> bool:
    """Whether a person sees this stream; a closed one is seen by nobody."""
    return not stream.closed and stream.isatty()
