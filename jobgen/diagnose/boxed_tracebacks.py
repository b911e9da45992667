"""Tracebacks that rich drew as a box: frames between bars, the exception below it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from jobgen.diagnose.tracebacks import Traceback, read_message

_BOTTOM = re.compile(r"\s*╰─+╯?\s*$")
_FRAME = re.compile(r"\s*│ +(?P<path>/[^\s│]+?):(?P<line>\d+) +in +(?P<name>[\w.<>]+) *│")
_MARKED = re.compile(r"\s*│ +❱ *\d+ [│ ]*(?P<code>\S.*?) *│")


def find_boxed(lines: Sequence[str]) -> Iterator[Traceback]:
    """Every box with an exception below it, in order; also those that begin in the middle."""
    for at, line in enumerate(lines):
        if not _BOTTOM.match(line):
            continue
        message = tuple(read_message(lines, at + 1))
        if not message:
            continue
        begin = at
        while begin and lines[begin - 1].lstrip().startswith(("│", "╭")):
            begin -= 1
        frames = tuple(_read_frames(lines[begin:at]))
        yield Traceback(begin, at + 1 + len(message), frames, message)


def _read_frames(box: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The frames, as Python writes them; without a place where the box breaks the line of one."""
    place = ""
    for line in box:
        if frame := _FRAME.match(line):
            place = f'  File "{frame["path"]}", line {frame["line"]}, in {frame["name"]}'
        elif marked := _MARKED.match(line):
            code = f"    {marked['code']}"
            yield (place, code) if place else (code,)
            place = ""
