"""What is well and what is not: tables of checks, each judged from answers alone.

A check is a row: its name, what it asks, and a function from what was answered to a verdict. The
world is asked elsewhere, so every judgement can be tried on any text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Generic, Literal, NamedTuple, TypeVar

from jobgen.shell import split_lines

Status = Literal["ok", "warning", "failed", "unknown"]
"""``skip`` is what could not be looked at: neither good nor bad."""

LATE = (124, 137)
"""What ``timeout`` exits with where it had to end a command, politely or not."""
MISSING = (126, 127)
NOT_ASKED = -1

Case = TypeVar("Case")


class Verdict(NamedTuple):
    """What a check comes to: what was seen, and where it is not well, what to do."""

    status: Status
    found: str
    fix: str = ""
    code: str = ""
    """For ``jobgen explain``; empty where there is no more to say."""
    seconds: float | None = None
    """How long what was asked took."""


class CheckRow(NamedTuple, Generic[Case]):
    """One check of a table; its verdict is None where it does not apply."""

    id: str
    asks: str
    judge: Callable[[Case], Verdict | None]


class Finding(NamedTuple):
    """One check, made."""

    id: str
    group: str
    asks: str
    verdict: Verdict


class Answer(NamedTuple):
    """What a question brought. ``code`` is NOT_ASKED where it was left out."""

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
    """A verdict: all is well."""
    return Verdict("ok", found, seconds=seconds)


def warn(found: str, fix: str, code: str = "") -> Verdict:
    """A verdict: it works, and may surprise."""
    return Verdict("warning", found, fix, code)


def fail(found: str, fix: str, code: str) -> Verdict:
    """A verdict: jobs will not work like this."""
    return Verdict("failed", found, fix, code)


def skip(found: str) -> Verdict:
    """A verdict: it was not looked at."""
    return Verdict("unknown", found)


def judge_silence(answer: Answer, what: str) -> Verdict | None:
    """The verdict on a question that has no answer to judge; None where there is one."""
    if answer.late:
        return fail(f"{what} did not answer in time", "try it there by hand; it may pass", "J435")
    if answer.code == NOT_ASKED:
        return skip("not asked")
    if answer.code in MISSING:
        return skip(f"there is no {what} there")
    return None


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
