"""Python's tracebacks in a log: which exception, and the frames worth showing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

_BEGIN = re.compile(r"(?:Original )?Traceback \(most recent call last\):")
_FRAME = re.compile(r'(?:  )?File "(?P<path>[^"]*)", line (?P<line>\d+)')
"""Its indentation is lost where somebody copied it."""
_CHAIN = ("During handling of the above exception", "The above exception was the direct cause")
_CARETS = re.compile(r"\s*[~^]+\s*$")
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?::|$)")
_NAMED = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit|Warning)\b")
_SENTENCE = re.compile(r"[A-Z][\w']* \S+ \S")
_FOREIGN = re.compile(r"site-packages|dist-packages|/lib(?:64)?/python3|<frozen |<string>")
_NEXT = re.compile(
    r"\[?[\dWEI]\d{3}|\S+ - (?:INFO|WARNING|ERROR)|jobgen: |srun: |slurmstepd"
    r"|terminate called|Fatal Python error"
)
"""What begins the next entry of a log, behind the message of an exception."""
_IGNORED = re.compile(
    r"Exception ignored (?:in|on|while)\b|--- Logging error ---|Error in atexit\._run_exitfuncs"
    r"|\b(?:Task|Future) exception was never retrieved|^Call stack:$"
    r"|^Stack \(most recent call last\):"
)
"""Before a traceback, or behind a progress bar: no program ends by what Python only reports."""
_NEAR = 2
LONGEST_MESSAGE = 12
"""Lines of an exception's message that are read."""


@dataclass(frozen=True, slots=True)
class Traceback:
    """One traceback: the lines from ``begin`` up to ``end`` in its log."""

    begin: int
    end: int
    frames: tuple[tuple[str, ...], ...]
    """The lines of each frame, outermost first."""
    message: tuple[str, ...]
    """The exception and its message."""
    chained: bool = False
    """Whether it followed from the one before, or was raised while that one was handled."""
    ignored: bool = False
    """Whether Python only reported it, and went on: of a destructor, or of the logging module."""

    @property
    def text(self) -> str:
        """The exception in one line."""
        return self.message[0] if self.message else ""

    def choose_lines(self) -> tuple[str, ...]:
        """The innermost frame of the user's own code, the innermost of all, and the exception."""
        count = len(self.frames)
        own = [i for i in range(count) if not _FOREIGN.search(self.frames[i][0])]
        wanted = sorted({*own[-1:], *([count - 1] if count else [])})
        lines = [line for i in wanted for line in self.frames[i]]
        return (*lines, *self.message)


def find_own_place(lines: Sequence[str]) -> str:
    """The innermost line of the user's own code, as ``FILE:LINE``; empty if none is among them."""
    frames = [_FRAME.match(line) for line in lines if not _FOREIGN.search(line)]
    return next((f"{f['path']}:{f['line']}" for f in reversed(frames) if f), "")


def find_tracebacks(lines: Sequence[str]) -> list[Traceback]:
    """Every whole traceback of a log, in order; where none is whole, those that lack the name of
    the exception."""
    found: list[Traceback] = []
    nameless: list[Traceback] = []
    at = 0
    while at < len(lines):
        headed = _BEGIN.match(lines[at]) is not None
        # the end of a log may begin inside a traceback; that of a SyntaxError has no first line
        if not headed and not _FRAME.match(lines[at]):
            at += 1
            continue
        begin = at if headed else at - 1
        follows = headed and bool(found) and _is_chained(lines, found[-1].end, at)
        ignored = found[-1].ignored if follows else _is_ignored(lines, begin, headed=headed)
        traceback = _read_one(lines, begin, chained=follows, ignored=ignored)
        found += [traceback] if traceback.message else []
        nameless += [] if traceback.message else _read_nameless(lines, traceback)
        at = max(traceback.end, at + 1)
    return found or nameless


def _read_nameless(lines: Sequence[str], this: Traceback) -> Iterator[Traceback]:
    """A traceback whose end is a message alone: a name in colour is lost in some copies."""
    text = lines[this.end] if this.end < len(lines) else ""
    if this.frames and _SENTENCE.match(text) and not (_BEGIN.match(text) or _NEXT.match(text)):
        raised = re.match(r"\s*raise ([\w.]+)\(", this.frames[-1][-1])
        message = f"{raised[1]}: {text}" if raised else text
        yield replace(this, end=this.end + 1, message=(message,))


def _is_ignored(lines: Sequence[str], begin: int, *, headed: bool) -> bool:
    before = lines[max(0, begin - _NEAR) : begin] if headed else lines[max(0, begin) : begin + 1]
    return any(_IGNORED.search(line) for line in before)


def _is_chained(lines: Sequence[str], end: int, begin: int) -> bool:
    between = [line for line in lines[end:begin] if line.strip(' "')]
    original = lines[begin].startswith("Original ") and not between
    return original or (len(between) == 1 and between[0].startswith(_CHAIN))


def _read_one(lines: Sequence[str], begin: int, *, chained: bool, ignored: bool) -> Traceback:
    at = begin + 1
    frames: list[list[str]] = []
    while at < len(lines) and _is_inside(lines, at):
        if _FRAME.match(lines[at]):
            frames.append([])
        if frames and not _CARETS.match(lines[at]):
            frames[-1].append(lines[at])
        at += 1
    message = tuple(read_message(lines, at))
    whole = tuple(tuple(frame) for frame in frames)
    return Traceback(max(begin, 0), at + len(message), whole, message, chained, ignored)


def _is_inside(lines: Sequence[str], at: int) -> bool:
    """Whether a line is a frame, or the code of one whose indentation is lost."""
    if lines[at].startswith(" ") or _FRAME.match(lines[at]):
        return True
    flat = at > 0 and lines[at - 1].startswith("File ") and _FRAME.match(lines[at - 1])
    return bool(flat) and not _NAMED.match(lines[at])


def read_message(lines: Sequence[str], at: int) -> Iterator[str]:
    """The exception's line, and the lines of its message up to the next entry of the log."""
    if at >= len(lines) or not _EXCEPTION.match(lines[at].removeprefix("ERROR: ")):
        return
    yield lines[at]
    for line in lines[at + 1 : at + LONGEST_MESSAGE]:
        if (
            not line.strip(' "')
            or _BEGIN.match(line)
            or _NEXT.match(line)
            or line.startswith(_CHAIN)
        ):
            return
        yield line
