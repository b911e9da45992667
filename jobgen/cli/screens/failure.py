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
LAST_LINES = 2
"""Ranks of which the last line is shown that others waited for."""
RETRIES = {
    "no": "does not help: the same job will fail again",
    "yes": "may help: submit it again",
    "other_nodes": "helps on other nodes: the problem lies in this one",
}
"""Whether a retry helps."""
_SOURCE = re.compile(
    r"\[/\S+\.\w+:\d+\] "
    r"|^(?:\S+: )?[\w.-]+:\d+:\d+ (?:\[\d+\] )?(?:\S+:\d+ (?:\(\w+\) )?)?NCCL WARN (?=\S)"
    r"|^(?:\[rank\d+\]:)?\[[DIWEF](?:\d{3,4} [\d:.]+)? \S+:\d+\] (?:\[[^\]]*\bRank \d+\] )?(?=\S)"
    r"|^ *what\(\): +"
)
"""The process and the line of C++ that gloo, NCCL and PyTorch put before their message."""


def explain_cause(cause: FailureCause, width: int = 0) -> str:
    """The error in one line: what kind it is, and the program's own words.

    With a width, of a long line the part that shows the error.
    """
    title = _find_title(cause)
    text = _SOURCE.sub("", defuse(_restate(cause) or cause.text))
    if width:
        from jobgen.diagnose.excerpts import cut_line

        text = cut_line(text, max(width - len(title), ROWS * 10))
    spoken = title.lower() in text.lower() or (text and cause.kind == CauseKind.EXIT_CODE)
    title = "" if spoken else title
    return ": ".join(part for part in (title, text) if part)


def _restate(cause: FailureCause) -> str:
    """A message of PyTorch's allocator in words, which have all its numbers; else empty."""
    from jobgen.diagnose.allocator_message import read_allocator_message

    return _cut_advice(cause.says) if read_allocator_message(cause.text) else ""


def _cut_advice(says: str) -> str:
    """What is wrong, without what to do."""
    return says.partition(": ")[0]


_PLAIN = frozenset({CauseKind.EXCEPTION, CauseKind.SETUP})
"""Causes whose own words say all."""


def _find_title(cause: FailureCause) -> str:
    from jobgen.data.causes import causes

    known = causes().get(cause.kind)
    title = cause.title or (known.title if known and cause.kind not in _PLAIN else "")
    named = any(sign.isupper() for sign in title.split(" ")[0][1:])
    return title if named else title[:1].lower() + title[1:]


def draw_cause(cause: FailureCause, ink: Ink, *, nodes: str = "") -> list[str]:
    """Why a job failed, where, and whether a retry helps; ``nodes`` are those of the job.

    The lines that stand wherever a job has failed, each of at most three rows.
    """
    sure = f" ({cause.certainty})" if cause.certainty else ""
    says = defuse(_cut_advice(cause.says))
    why = _fit_why(cause, ink.width - 9, sure)
    rows = [("why", f"{why}{sure}"), ("", "" if says in why else says)]
    rows += [("where", locate_cause(cause) or (f"on {defuse(nodes)}" if nodes else ""))]
    rows += [("", text) for text in doubt_cause(cause)]
    rows += [("", defuse(text)) for text in cause.last_lines[:LAST_LINES]]
    rows += [("retry", describe_retry(cause))]
    lines = []
    for label, text in rows:
        if text:
            first, *more = split_lines(fold(text, ink.width - 9))
            cut = f"…{sure if label == 'why' else ''}"
            kept = more if len(more) < ROWS else [*more[: ROWS - 2], cut]
            lines += [f"  {label:5}  {first}", *(f"         {line}" for line in kept)]
    return [clip(line, ink.width) for line in lines]


def _fit_why(cause: FailureCause, width: int, sure: str) -> str:
    """The error in one line that fits on ``ROWS`` rows."""
    why = explain_cause(cause)
    for lost in range(0, width, 8):
        if len(split_lines(fold(f"{why}{sure}", width))) <= ROWS:
            break
        why = explain_cause(cause, ROWS * width - len(sure) - lost)
    return why


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
        return _locate_node(cause, end)
    if cause.doubt == Doubt.VICTIM:
        return f"reported by rank {cause.rank}{node}{end}"
    if cause.doubt == Doubt.LATER:
        return f"rank {cause.rank}{node}, which ended after {defuse(cause.other)}{end}"
    if cause.kind == CauseKind.COLLECTIVE_TIMEOUT:
        return f"rank {cause.rank}{node} did not join"
    return f"rank {cause.rank}{node} failed first{end}"


def _locate_node(cause: FailureCause, end: str) -> str:
    """The node where it happened, or the two between which it did, if no rank is to blame."""
    if cause.between:
        one, other = (defuse(name) for name in cause.between)
        return f"between {one} and {other}; nothing shows which of the two is at fault"
    node = defuse(cause.node)
    if cause.local_rank is not None:
        where = f"on {node}" if node else "of a node that the log does not name"
        return f"local rank {cause.local_rank} {where} failed first{end}"
    if node and end:
        return f"{node} failed first, before its ranks started{end}"
    return f"on {node}" if node else ""


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
    rows = draw_lines(lines, ink, error=_shorten(cause.text, record), verbose=verbose)
    return "\n".join([ink("strong", _title_lines(cause)), *rows, ""]) if rows else ""


def draw_lines(
    lines: Sequence[str], ink: Ink, *, error: str = "", verbose: bool = False
) -> list[str]:
    """Lines of a log, clipped to the screen. The last, which has the exception, is folded, and so
    is that of the ``error``."""
    if not lines:
        return []
    texts = [line.strip() for line in lines]
    last = len(lines) - 1
    at = texts.index(error.strip()) if error.strip() in texts else last
    rows: list[str] = []
    for number in _choose_lines(len(lines), at, verbose=verbose):
        if number is None:
            rows.append("  ...")
        elif number in (at, last):
            rows += _fold_line(lines[number], ink, verbose=verbose)
        else:
            rows.append(clip(f"  {lines[number]}", ink.width))
    return rows


def _choose_lines(many: int, at: int, *, verbose: bool) -> list[int | None]:
    """The lines that are shown, and None where some are left out."""
    if many <= SHOWN or verbose:
        return list(range(many))
    # the end has the exception; the beginning, what it was raised from
    last = many - SHOWN + 2
    if at == 0 or at >= last:
        return [0, None, *range(last, many)]
    return [0, None, at, None, *range(last + 2, many)]


def _fold_line(line: str, ink: Ink, *, verbose: bool) -> list[str]:
    from jobgen.diagnose.excerpts import cut_line

    indent = "  " + " " * (len(line) - len(line.lstrip()))
    width = ink.width - len(indent)
    text = line.lstrip()
    rows = split_lines(fold(text, width, indent))
    text = _SOURCE.sub("", text)
    for lost in range(0, width, 8):
        if verbose or len(rows) <= FOLDED:
            break
        rows = split_lines(fold(cut_line(text, FOLDED * width - lost), width, indent))
    first, *more = rows if verbose else rows[:FOLDED]
    return [f"{indent}{first}", *more]


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
