"""Checks of `jobgen doctor`: tables of them, each judged from answers alone.

A check is a row: its name, what holds if it passes, and a function from answers to a verdict. The
answers are collected elsewhere, so every judgement can be tested with any text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Generic, Literal, TypeVar

from jobgen.named_tuple import NamedTuple
from jobgen.shell import split_lines

Status = Literal["ok", "warning", "failed", "unknown"]
"""``unknown`` is a check that was skipped: neither good nor bad."""

LATE = (124, 137)
"""What ``timeout`` exits with where it had to end a command, politely or not."""
MISSING = (126, 127)
NOT_ASKED = -1

Case = TypeVar("Case")


class Verdict(NamedTuple):
    """The result of a check: what was found, and the fix if it failed."""

    status: Status
    found: str
    fix: str = ""
    code: str = ""
    """For ``jobgen explain``; empty if there is none."""
    seconds: float | None = None
    """How long the check took."""


class CheckRow(NamedTuple, Generic[Case]):
    """One check of a table; its verdict is None if it does not apply."""

    id: str
    asks: str
    judge: Callable[[Case], Verdict | None]


class Finding(NamedTuple):
    """A check and its verdict."""

    id: str
    group: str
    asks: str
    verdict: Verdict


class Answer(NamedTuple):
    """The output of a command. ``code`` is NOT_ASKED if it was left out."""

    code: int = NOT_ASKED
    out: str = ""
    err: str = ""
    seconds: float | None = None

    @property
    def ok(self) -> bool:
        """Whether the command did what it was asked."""
        return self.code == 0

    @property
    def late(self) -> bool:
        """Whether it was given up."""
        return self.code in LATE

    @property
    def summarize(self) -> str:
        """What it complained of, or else printed, as one line."""
        lines = [line.strip() for line in split_lines(self.err.strip() or self.out)]
        return "; ".join(line for line in lines if line)[:400]


Answers = Mapping[str, Answer]
"""By the question's key. One that is not there was not asked."""


def judge_rows(group: str, rows: Sequence[CheckRow[Case]], case: Case) -> Iterator[Finding]:
    """The findings of a table of checks, in its order."""
    for row in rows:
        verdict = row.judge(case)
        if verdict is not None:
            yield Finding(row.id, group, row.asks, verdict)


def succeed(found: str, seconds: float | None = None) -> Verdict:
    """A verdict: passed."""
    return Verdict("ok", found, seconds=seconds)


def warn(found: str, fix: str, code: str = "") -> Verdict:
    """A verdict: it works, but may surprise."""
    return Verdict("warning", found, fix, code)


def fail(found: str, fix: str, code: str) -> Verdict:
    """A verdict: jobs will not work."""
    return Verdict("failed", found, fix, code)


def skip(found: str) -> Verdict:
    """A verdict: not checked."""
    return Verdict("unknown", found)


def judge_silence(answer: Answer, what: str) -> Verdict | None:
    """The verdict on a command that gave no answer; None if there is one to judge."""
    if answer.late:
        return fail(
            f"{what} did not answer in time", "run it there by hand; the load may pass", "J435"
        )
    if answer.code == NOT_ASKED:
        return skip("skipped after an earlier failure")
    if answer.code in MISSING:
        return skip(f"{what} is not installed there")
    return None


def write_size(size: int) -> str:
    """Bytes with three significant digits, never with an exponent: ``5.81 GiB``."""
    from jobgen.model.units import scale_size

    amount, unit = scale_size(size)
    return f"{float(f'{amount:.3g}'):g} {unit}"


def parse_fields(text: str) -> dict[str, str]:
    """First word → the rest of the line; of a word that comes twice, the first line."""
    found: dict[str, str] = {}
    for line in split_lines(text):
        key, _, rest = line.partition(" ")
        found.setdefault(key, rest.strip())
    return found


def list_values(text: str, key: str) -> list[str]:
    """The rests of all lines that begin with this word."""
    return [
        line[len(key) + 1 :].strip() for line in split_lines(text) if line.startswith(key + " ")
    ]
