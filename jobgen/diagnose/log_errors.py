"""The end of one log → the error that it reports."""

from __future__ import annotations

import re
from collections.abc import Sequence

from jobgen.diagnose.error_patterns import classify
from jobgen.diagnose.tracebacks import Traceback, find_tracebacks
from jobgen.follow.launcher_noise import drop_noise
from jobgen.follow.sanitize import clean
from jobgen.model.cause import CauseKind
from jobgen.named_tuple import NamedTuple

NEAR = 25
"""How many lines may follow an error that ended a program."""
MOST_LINES = 12
"""Lines of an error that are kept."""
_LONGEST = 600
"""Characters of a line that are kept."""
_RANK = re.compile(r"^\[rank\d+\]: ?")
_OWN = re.compile(r"jobgen: (?P<who>[\w.-]+|rank \S+ on [\w.-]+): (?P<text>.*)")
_SETUP = re.compile(r"setup failed: ")
_SUMMARY = re.compile(r" failed first, with exit code \d+$")
"""What the batch script concludes from the ends of the ranks."""
_FATAL, _MODULES = "Fatal Python error", "Extension modules: "
"""faulthandler's: the stack of the program follows, and then a list of modules."""
_HARMLESS = re.compile(r"\b(?:DEBUG|INFO|WARNING|\w*Warning)\b")
"""What a program logged and went on."""
_VICTIMS = frozenset({CauseKind.LOST_PEER, CauseKind.INTERRUPTED})


class LogError(NamedTuple):
    """An error as a log reports it."""

    kind: CauseKind
    text: str
    """The error in one line."""
    lines: tuple[str, ...]
    below: int
    """How many lines follow it."""
    unsure: int = 0
    """Of its lines, those that may be what the program wrote later, and no part of its message."""

    @property
    def victim(self) -> bool:
        """Whether it only reports that another rank has gone, or does not answer."""
        return self.kind in _VICTIMS

    @property
    def order(self) -> int:
        """What explains more comes first."""
        return 2 if self.kind is CauseKind.ABORT else int(self.victim)


def read_lines(tail: str) -> list[str]:
    """The lines of a log as people read them: no control characters, no launcher's noise, and
    without the rank that torch writes before each line of a traceback."""
    texts = [line.rpartition("\r")[2] for line in clean(tail).split("\n")]
    lines = [_RANK.sub("", text)[:_LONGEST] for text in drop_noise(texts)]
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def find_error(lines: Sequence[str], signal: int = 0) -> LogError | None:
    """The error that ended the program, by ``signal`` if one did; None if there is none.

    A traceback goes before other lines, except where a signal ended the program. What only reports
    lost peers comes after all that, and last the abort that follows from any of them. Of several
    errors the last one ended it.
    """
    tracebacks = find_tracebacks(lines)
    inside = {at for each in tracebacks for at in range(each.begin, each.end)}
    raised = [_read_traceback(lines, tracebacks, i) for i in range(len(tracebacks))]
    written = [_read_line(lines, at, kind) for at, kind in _match(lines, inside)]
    written = [error for error in written if error.below <= NEAR]
    ranked = [(error.order, 0, error.below, error) for error in raised]
    ranked += [(error.order, not signal, error.below, error) for error in written]
    return min(ranked, key=lambda row: row[:3], default=(None,))[-1]


def _match(lines: Sequence[str], inside: set[int]) -> list[tuple[int, CauseKind]]:
    outside = ((at, text) for at, text in enumerate(lines) if at not in inside)
    kinds = ((at, classify(text)) for at, text in outside if not _HARMLESS.search(text))
    return [(at, kind) for at, kind in kinds if kind is not None]


def _read_traceback(lines: Sequence[str], tracebacks: list[Traceback], i: int) -> LogError:
    this = tracebacks[i]
    kind = next(filter(None, map(classify, this.message)), CauseKind.EXCEPTION)
    before = tracebacks[i - 1].message[:1] if this.chained else ()
    link = [line for line in lines[tracebacks[i - 1].end : this.begin] if line.strip()]
    shown = (*before, *link, *this.choose_lines()) if this.chained else this.choose_lines()
    unsure = len(this.message) - 1 if kind is CauseKind.EXCEPTION else 0
    return LogError(kind, this.text, _limit(shown), len(lines) - this.end, unsure)


def _read_line(lines: Sequence[str], at: int, kind: CauseKind) -> LogError:
    own = _OWN.match(lines[at])
    begin = max(0, at - 3)
    begin, end = (at, at + 8) if lines[at].startswith(_FATAL) else (begin, at + 4)
    shown = [line for line in lines[begin:end] if line.strip() and not line.startswith(_MODULES)]
    text = own["text"] if own else lines[at].strip()
    return LogError(kind, text, _limit(shown), len(lines) - at - 1)


def read_last_lines(lines: Sequence[str], count: int) -> tuple[str, ...]:
    """The last lines that are not empty."""
    return tuple([line for line in lines if line.strip()][-count:])


def find_own_error(lines: Sequence[str], node: str = "") -> LogError | None:
    """The first failure that jobgen's own scripts report in the job's log: a line of setup, a
    missing launcher, a secret that is not there."""
    for at, line in enumerate(lines):
        own = _OWN.match(line)
        if own is None or _SUMMARY.search(line) or (node and node not in own["who"]):
            continue
        before = [text for text in lines[max(0, at - 3) : at] if text.strip()]
        kinds = [classify(text) for text in (line, *reversed(before))]
        setup = _SETUP.match(own["text"])
        kind = next((k for k in kinds if k is not None and not setup), CauseKind.SETUP)
        return LogError(kind, own["text"], _limit((*before, line)), len(lines) - at - 1)
    return None


def _limit(lines: Sequence[str]) -> tuple[str, ...]:
    """The last lines, and of these at most ``MOST_LINES``."""
    return tuple(line.rstrip() for line in lines)[-MOST_LINES:]
