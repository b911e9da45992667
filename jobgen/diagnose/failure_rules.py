"""The rules of diagnosis, as data: which line of a log shows which cause, and what that explains.

Rows of ``data/failure_rules.csv``; the causes stand in ``data/codes/causes.toml``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum
from functools import cache

from jobgen.data import rows
from jobgen.data.causes import KnownCause, causes
from jobgen.named_tuple import NamedTuple


class Level(IntEnum):
    """What a line proves, the strongest first."""

    ROOT = 0
    """States a cause by itself."""
    CRASH = 1
    """The process ended in native code, or by a signal: often a cause, rarely a consequence."""
    SYMPTOM = 2
    """An error whose cause is another line, where there is one."""
    HANG = 3
    """A rank waited in vain: the cause is on the rank that it waited for."""
    VICTIM = 4
    """Only reports that a peer has gone, or that others ended this process."""
    END = 5
    """How Slurm ended the job."""
    HINT = 6
    """Explains a failure, and is none."""


class Rule(NamedTuple):
    """One row: lines that fit ``pattern`` show ``cause``."""

    cause: str
    level: Level
    scope: str
    """Whom it concerns: the ``rank``, its ``node``, or the ``job``."""
    needles: tuple[str, ...]
    """Texts of which a line holds at least one."""
    pattern: re.Pattern[str]
    says: str
    """What exactly is wrong, where the title of the cause is less exact; and what to do."""
    retry: str
    """As for the cause; ``after_steps``: yes once the training had made a step, else no."""
    source: str
    title: str = ""
    """What happened, where the title of the cause is less exact or does not fit."""


_LEVELS = {level.name.lower(): level for level in Level}
UNCAUGHT = Rule(
    "exception", Level.ROOT, "rank", (), re.compile(""), "", "", "CPython: nothing caught it"
)
"""Of a traceback that no row fits."""
BARE = Rule(
    "exception", Level.SYMPTOM, "rank", (),
    re.compile(
        r"\s?(?:(?:ERROR|Error|FATAL): (?:LoadError: )?|Exception in thread \"[^\"]*\" )?"
        r"(?:(?:[a-z_]\w*\.)*(?:[A-Z]\w*(?:Error|Exception)|Exception): \S"
        r"|(?:[a-z_]\w*\.)+[A-Z]\w*(?:Error|Exception)$"
        r"|(?:[a-z_]\w*\.)+_?(?:exceptions?|errors?)\.[A-Z]\w*(?:: [^\s\d.+-]|$))"
    ),
    "", "", "CPython, Julia, Java",
)  # fmt: skip
"""Of an exception whose traceback is not in the log, and that no row fits."""


@cache
def load_rules() -> tuple[Rule, ...]:
    """All rows, in their order: of rows of one level, the first that fits counts."""
    return tuple(_read_rule(row) for row in rows("failure_rules.csv"))


def _read_rule(row: Mapping[str, str]) -> Rule:
    needles = tuple(row["needle"].split("|"))
    pattern = row["pattern"] or "|".join(map(re.escape, needles))
    return Rule(
        row["cause"],
        _LEVELS[row["level"]],
        row["scope"],
        needles,
        re.compile(pattern),
        row["says"],
        row["retry"],
        row["source"],
        row["title"] or "",
    )


def match_line(text: str) -> Rule | None:
    """The strongest rule that fits a line; of equal ones the first."""
    best: Rule | None = None
    holds = text.__contains__  # this loop takes most of the time of a diagnosis
    for rule in load_rules():
        if best is not None and best.level <= rule.level:
            continue
        if any(map(holds, rule.needles)) and rule.pattern.search(text):
            best = rule
            if best.level is Level.ROOT:
                break
    return best


@cache
def get_cause(key: str) -> KnownCause:
    """What is known of a cause. Raises KeyError."""
    return causes()[key]


def outranks(one: str, other: str) -> bool:
    """Whether ``other`` follows from ``one``, where both are seen."""
    known = causes().get(one)
    return known is not None and other in known.outranks
