"""Why a job failed, in the lines that a person reads first."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jobgen.cli.layout import align, clip, fold
from jobgen.cli.output import defuse
from jobgen.model.cause import CauseKind, Doubt
from jobgen.shell import split_lines
from jobgen.wording import count

if TYPE_CHECKING:
    from jobgen.cli.output import Ink
    from jobgen.model.cause import FailureCause
    from jobgen.model.record import RunRecord

SHOWN, FOLDED = 6, 3
"""Lines of the log on a screen, and rows for the last of them; ``-v`` shows more."""
_SOURCE = re.compile(r"\[/\S+\.\w+:\d+\] ")
"""The line of C++ that gloo and NCCL put before their message."""


def explain_cause(cause: FailureCause) -> str:
    """The error in one line: what kind it is, and the program's own words."""
    title = _find_title(cause.kind)
    text = _SOURCE.sub("", defuse(cause.text))
    spoken = title.lower() in text.lower() or (text and cause.kind == CauseKind.EXIT_CODE)
    title = "" if spoken else title
    return ": ".join(part for part in (title, text) if part)


_PLAIN = frozenset({CauseKind.EXCEPTION, CauseKind.SETUP})
"""Causes whose own words say all."""


def _find_title(kind: str) -> str:
    from jobgen.data.causes import causes

    known = causes().get(kind)
    if known is None or kind in _PLAIN:
        return ""
    return known.title if known.title[:2].isupper() else known.title[:1].lower() + known.title[1:]


def draw_cause(cause: FailureCause, record: RunRecord, ink: Ink) -> list[str]:
    """Why a job failed, and where; then what speaks against it, and how many report the same."""
    rows = [("why", explain_cause(cause)), ("where", locate_cause(cause, record))]
    rows += [("", text) for text in doubt_cause(cause)]
    lines = split_lines(align([row for row in rows if row[1]], indent="  "))
    return [clip(line, ink.width) for line in lines]


def locate_cause(cause: FailureCause, record: RunRecord) -> str:
    """The rank, its node and its exit code; of a job that reached its limit, the nodes."""
    from jobgen.diagnose import describe_exit

    node = defuse(cause.node)
    if not node or cause.code is None:
        return defuse(f"on {record.nodes}") if record.nodes else ""
    end = describe_exit(cause.code, cause.signal, cause.kind)
    if cause.rank is None:
        return f"{node}, before its ranks started, failed first: {end}"
    if cause.doubt == Doubt.LATER:
        return f"rank {cause.rank} on {node}, which ended after {defuse(cause.other)}: {end}"
    return f"rank {cause.rank} on {node} failed first: {end}"


def doubt_cause(cause: FailureCause) -> list[str]:
    """What speaks against this rank being the first, and how many others report the same."""
    if cause.doubt == Doubt.VICTIM:
        hung = f"{defuse(cause.other)} reported no error and may have hung." if cause.other else ""
        return [hung or "It only lost its peers: the cause may be on another rank."]
    texts = []
    if cause.doubt == Doubt.LATER:
        texts.append(f"{defuse(cause.other)} only lost its peers.")
    if cause.alike:
        verb = "reports" if cause.alike == 1 else "report"
        texts.append(f"{count(cause.alike, 'more rank')} {verb} the same error.")
    return texts


def draw_error(cause: FailureCause, record: RunRecord, ink: Ink, *, verbose: bool = False) -> str:
    """The lines of the log that matter, below their title; paths start at the run directory."""
    lines = [_shorten(line, record) for line in cause.lines]
    if not lines:
        return ""
    if len(lines) > SHOWN and not verbose:
        # the end has the exception; the beginning, what it was raised from
        lines = [lines[0], "...", *lines[len(lines) - SHOWN + 2 :]]
    rows = [clip(f"  {line}", ink.width) for line in lines[:-1]]
    text = lines[-1].lstrip()
    indent = "  " + " " * (len(lines[-1]) - len(text))
    last = split_lines(fold(text, ink.width - len(indent), indent))
    rows += [f"{indent}{last[0]}", *last[1 : len(last) if verbose else FOLDED]]
    return "\n".join([ink("strong", _title_lines(cause)), *rows, ""])


def _title_lines(cause: FailureCause) -> str:
    if cause.kind == CauseKind.TIME_LIMIT:
        return "Last line of each rank"
    title = "Error" if cause.text else "Last lines"
    # 0/0/n1.3.err is rank 3's stderr: the folder is that of the element and the start
    return f"{title} in {defuse(cause.file.rpartition('/')[2])}" if cause.file else title


def _shorten(line: str, record: RunRecord) -> str:
    text = defuse(line)
    if record.directory:
        text = text.replace(f"{record.directory}/src/", "").replace(f"{record.directory}/", "")
    return text
