"""What can go wrong for a person, as values: a place, what is wrong, what to do next.

JobgenError            exit   raised when
├── CheckFailed        1      a check failed that stands on no line of a file
├── Usage              2      the words of the command do not fit, or a question has no terminal
├── Invalid            3      a file is wrong; nothing was contacted
├── Unreachable        4      no connection, or no login
├── Refused            5      the scheduler said no; its text is shown unchanged
├── Unfit              6      the plan cannot fit; ``--force`` overrides
├── Missing            7      no such job or cluster
└── TimedOut           124    a wait ran out; the job goes on
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import ClassVar, Literal

from jobgen.named_tuple import NamedTuple

Severity = Literal["error", "warning", "note"]


class Exit(IntEnum):
    """The exit codes of the program, one table for all verbs."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    INVALID = 3
    UNREACHABLE = 4
    REFUSED = 5
    UNFIT = 6
    MISSING = 7
    DIFFERENT = 8
    BUG = 70
    TIMED_OUT = 124
    INTERRUPTED = 130


class Place(NamedTuple):
    """Where a value comes from: in a file, a label as users write it, line and columns from 1.

    0 is unknown. An option of the command line, or a rule of jobgen's own, has its name alone.
    """

    file: str
    line: int = 0
    col: int = 0
    end_col: int = 0
    kind: Literal["file", "option", "rule"] = "file"

    def __str__(self) -> str:
        rule = "rule " if self.kind == "rule" else ""
        return ":".join([rule + self.file, *(str(n) for n in (self.line, self.col) if n)])


class Diagnostic(NamedTuple):
    """One thing wrong: its code (``jobgen explain CODE``), the sentence, its places, the hint."""

    code: str
    message: str
    place: Place | None = None
    hint: str = ""
    severity: Severity = "error"
    also: tuple[Place, ...] = ()
    """Other lines that take part, as the first of two equal keys."""


class JobgenError(Exception):
    """A mistake or a misfortune that a person can act on; never a bug."""

    exit: ClassVar[Exit] = Exit.FAILED

    def __init__(self, *problems: Diagnostic | str, hint: str = "") -> None:
        self.problems: tuple[Diagnostic, ...] = tuple(
            p if isinstance(p, Diagnostic) else Diagnostic("J000", p, hint=hint) for p in problems
        )
        super().__init__("; ".join(p.message for p in self.problems))


class CheckFailed(JobgenError):
    """A check failed that stands on no line of a file, such as a secret that is not set."""

    exit = Exit.FAILED


class Usage(JobgenError):
    """The words of the command do not fit, or a question has no terminal."""

    exit = Exit.USAGE


class Invalid(JobgenError):
    """A file is wrong; nothing was contacted."""

    exit = Exit.INVALID


class Unreachable(JobgenError):
    """No connection, or no login."""

    exit = Exit.UNREACHABLE


class Refused(JobgenError):
    """The scheduler said no; its text is in the message, unchanged."""

    exit = Exit.REFUSED


class Unfit(JobgenError):
    """The plan cannot fit; ``--force`` overrides."""

    exit = Exit.UNFIT


class Missing(JobgenError):
    """No such job or cluster."""

    exit = Exit.MISSING


class TimedOut(JobgenError):
    """A wait ran out; the job goes on."""

    exit = Exit.TIMED_OUT


def raise_errors(kind: type[JobgenError], problems: Sequence[Diagnostic]) -> None:
    """Raise ``kind`` with all problems where at least one is an error; else return."""
    if any(p.severity == "error" for p in problems):
        raise kind(*problems)
