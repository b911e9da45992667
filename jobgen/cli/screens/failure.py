"""Why a job failed, in the lines that a person reads first."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jobgen.cli.layout import clip, fold
from jobgen.cli.output import defuse
from jobgen.model.cause import CauseKind, Certainty, Doubt
from jobgen.shell import split_lines
from jobgen.wording import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobgen.cli.output import Ink
    from jobgen.model.cause import FailureCause
    from jobgen.model.record import RunRecord

SHOWN, FOLDED = 6, 3
"""Lines of the log on a screen, and rows for the last of them; ``-v`` shows more."""
ROWS = 3
"""Rows of one reason."""
RETRIES = {
    "no": "does not help: the same job will fail again",
    "yes": "may help: submit it again",
    "other_nodes": "helps on other nodes: the problem lies in this one",
}
"""Whether a retry helps."""
_SOURCE = re.compile(r"\[/\S+\.\w+:\d+\] ")
"""The line of C++ that gloo and NCCL put before their message."""


def explain_cause(cause: FailureCause) -> str:
    """The error in one line: what kind it is, and the program's own words."""
    title = _find_title(cause.kind)
    text = _SOURCE.sub("", defuse(cause.text)).removeprefix("  what():  ").removeprefix("what():  ")
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
    named = any(sign.isupper() for sign in known.title.split()[0][1:])
    return known.title if named else known.title[:1].lower() + known.title[1:]


def draw_cause(cause: FailureCause, ink: Ink, *, nodes: str = "") -> list[str]:
    """Why a job failed, where, and whether a retry helps; ``nodes`` are those of the job.

    The lines that stand wherever a job has failed, each of at most three rows.
    """
    sure = f" ({cause.certainty})" if cause.certainty else ""
    says = defuse(cause.says.partition(": ")[0])
    why = explain_cause(cause)
    rows = [("why", f"{why}{sure}"), ("", "" if says in why else says)]
    rows += [("where", locate_cause(cause) or (f"on {defuse(nodes)}" if nodes else ""))]
    rows += [("", text) for text in doubt_cause(cause)]
    rows += [("retry", describe_retry(cause))]
    lines = []
    for label, text in rows:
        if text:
            first, *more = split_lines(fold(text, ink.width - 9))
            cut = f"…{sure if label == 'why' else ''}"
            kept = more if len(more) < ROWS else [*more[: ROWS - 2], cut]
            lines += [f"  {label:5}  {first}", *(f"         {line}" for line in kept)]
    return [clip(line, ink.width) for line in lines]


def describe_retry(cause: FailureCause) -> str:
    """Whether the same job has a fair chance; empty if that is no question."""
    if cause.kind == CauseKind.CANCELLED:
        return ""
    if cause.kind == CauseKind.TIME_LIMIT:
        return "helps only if the job resumes from a checkpoint"
    if cause.retry == "no" and cause.certainty != Certainty.SURE:
        return "is unlikely to help"
    return RETRIES.get(cause.retry, "")


def locate_cause(cause: FailureCause) -> str:
    """The rank to blame, its node and its exit code; of an error that all ranks report, that."""
    from jobgen.diagnose import describe_exit

    node = f" on {defuse(cause.node)}" if cause.node else ""
    code = cause.code
    end = f" ({describe_exit(code, cause.signal, cause.kind)})" if code is not None else ""
    if cause.all_ranks:
        first = f", first rank {cause.rank}{node}" if cause.rank is not None else ""
        return f"all ranks report the same{first}{end}"
    if cause.rank is None:
        failed = f"{defuse(cause.node)} failed first, before its ranks started"
        return f"{failed}{end}" if cause.node and end else node.removeprefix(" ")
    if cause.doubt == Doubt.VICTIM:
        return f"reported by rank {cause.rank}{node}{end}"
    if cause.doubt == Doubt.LATER:
        return f"rank {cause.rank}{node}, which ended after {defuse(cause.other)}{end}"
    if cause.kind == CauseKind.COLLECTIVE_TIMEOUT:
        return f"rank {cause.rank}{node} did not join"
    return f"rank {cause.rank}{node} failed first{end}"


def doubt_cause(cause: FailureCause) -> list[str]:
    """What speaks against this rank being the first, and how many others report the same."""
    if cause.doubt == Doubt.VICTIM:
        hung = f"{defuse(cause.other)} reported no error and may have hung." if cause.other else ""
        return [hung or "It only lost its peers: the cause may be on another rank."]
    texts = []
    if cause.doubt == Doubt.LATER:
        texts.append(f"{defuse(cause.other)} only lost its peers.")
    if cause.alike and not cause.all_ranks:
        verb = "reports" if cause.alike == 1 else "report"
        texts.append(f"{count(cause.alike, 'more rank')} {verb} the same error.")
    return texts


def draw_error(cause: FailureCause, record: RunRecord, ink: Ink, *, verbose: bool = False) -> str:
    """The lines of the log that matter, below their title; paths start at the run directory."""
    lines = [_shorten(line, record) for line in cause.lines]
    rows = draw_lines(lines, ink, verbose=verbose)
    return "\n".join([ink("strong", _title_lines(cause)), *rows, ""]) if rows else ""


def draw_lines(lines: Sequence[str], ink: Ink, *, verbose: bool = False) -> list[str]:
    """Lines of a log, clipped to the screen; the last is folded, since it has the exception."""
    if not lines:
        return []
    if len(lines) > SHOWN and not verbose:
        # the end has the exception; the beginning, what it was raised from
        lines = [lines[0], "...", *lines[len(lines) - SHOWN + 2 :]]
    rows = [clip(f"  {line}", ink.width) for line in lines[:-1]]
    indent = "  " + " " * (len(lines[-1]) - len(lines[-1].lstrip()))
    text = _SOURCE.sub("", lines[-1].lstrip())
    last = split_lines(fold(text, ink.width - len(indent), indent))
    return [*rows, f"{indent}{last[0]}", *last[1 : len(last) if verbose else FOLDED]]


def _title_lines(cause: FailureCause) -> str:
    if cause.kind == CauseKind.TIME_LIMIT:
        return "Last line of each rank"
    title = "Error" if cause.text else "Last lines"
    if cause.rank is not None and not cause.reports_itself:
        title = "What a waiting rank reported,"
    # 0/0/n1.3.err is rank 3's stderr: the folder is that of the element and the start
    return f"{title} in {defuse(cause.file.rpartition('/')[2])}" if cause.file else title


def _shorten(line: str, record: RunRecord) -> str:
    text = defuse(line)
    if record.directory:
        text = text.replace(f"{record.directory}/src/", "").replace(f"{record.directory}/", "")
    return text
