"""The answer of ``diagnose``: cause, place and retry first, then the evidence and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobgen.app.program_parts import find_failed_part
from jobgen.cli.layout import align, fold
from jobgen.cli.output import defuse
from jobgen.cli.screens import failure
from jobgen.diagnose.failure_rules import get_cause
from jobgen.wording import count

if TYPE_CHECKING:
    from jobgen.app.diagnosing import Diagnosed
    from jobgen.cli.output import Ink
    from jobgen.model.cause import FailureCause

SHOWN = 3
"""Remedies on a screen; ``-v`` shows all."""


def draw_diagnosis(found: Diagnosed, ink: Ink, *, verbose: bool) -> str:
    """The whole answer, in 25 lines except with ``verbose``."""
    if found.cause is None:
        return _draw_nothing(found)
    cause, run = found.cause, found.record.alias if found.record else ""
    parts = [
        _draw_head(cause, found, ink),
        _draw_evidence(cause, found, ink, verbose=verbose),
        _draw_about(cause, ink),
        _draw_remedies(found, ink, verbose=verbose),
    ]
    code = get_cause(cause.kind).code
    more = [f"jobgen explain {code}"]
    more += [f"jobgen show {defuse(run)}"] if run else []
    return "\n".join([*(part for part in parts if part), f"More: {'; '.join(more)}\n"])


def _draw_nothing(found: Diagnosed) -> str:
    what = f"no failure found in {count(found.files, 'log file')}"
    if found.record is not None:
        ended = "no failure found" if found.record.ended else "still going, no failure known"
        what = f"{found.record.state}, {ended}"
    remark = f"  {defuse(found.remark)}\n" if found.remark else ""
    return f"{defuse(found.what)}: {what}\n{remark}"


def _draw_head(cause: FailureCause, found: Diagnosed, ink: Ink) -> str:
    record = found.record
    title = f"{defuse(record.alias)}  {record.state}" if record else defuse(found.what)
    lines = failure.draw_cause(cause, ink, nodes=record.nodes if record else "")
    if record and (step := find_failed_part(record)):
        lines.append(f"  {record.part_kind:5}  {defuse(step)}")
    return "\n".join([ink("strong", title), *lines, ""])


def _draw_evidence(cause: FailureCause, found: Diagnosed, ink: Ink, *, verbose: bool) -> str:
    folder = "logs/" if found.record and cause.file else ""
    place = folder + defuse(cause.file) + (f":{cause.line}" if cause.line else "")
    lines = [found.shorten(defuse(line)) for line in cause.lines]
    error = found.shorten(defuse(cause.text))
    rows = failure.draw_lines(lines, ink, error=error, verbose=verbose)
    return "\n".join([f"{ink('strong', 'Evidence')}  {place}", *rows, ""]) if rows else ""


def _draw_about(cause: FailureCause, ink: Ink) -> str:
    rows = [
        ("Followed", "; ".join(cause.consequences)),
        ("Ruled out", "; ".join(cause.ruled_out)),
    ]
    shown = [(label, fold(text, ink.width - 11, " " * 11)) for label, text in rows if text]
    return "".join(f"{ink('strong', f'{label:9}')}  {text}\n" for label, text in shown)


def _draw_remedies(found: Diagnosed, ink: Ink, *, verbose: bool) -> str:
    shown = found.remedies if verbose else found.remedies[:SHOWN]
    rows = []
    for number, remedy in enumerate(shown, start=1):
        text = f"{remedy.command}  # {remedy.text}" if remedy.command and remedy.text else ""
        whole = defuse(text or remedy.command or remedy.text)
        rows.append((f"{number}", whole))
    if not rows:
        return ""
    return f"{ink('strong', 'What to do')}, cheapest first\n{align(rows, indent='  ')}"


def dump_diagnosis(found: Diagnosed) -> dict[str, Any]:
    """The answer as plain data."""
    record, cause = found.record, found.cause
    about = {
        "what": found.what,
        "run": record and record.alias,
        "state": record and str(record.state),
        "files": found.files or None,
        "failed": cause is not None,
    }
    if cause is None:
        return {**about, "cause": None, "remark": found.remark or None}
    known = get_cause(cause.kind)
    return {
        **about,
        "cause": str(cause.kind),
        "code": known.code,
        "title": cause.title or known.title,
        "certainty": str(cause.certainty),
        "rank": cause.bad_rank,
        "node": None if cause.all_ranks else cause.node or None,
        "local_rank": cause.local_rank,
        "between": list(cause.between) or None,
        "all_ranks": cause.all_ranks,
        "reported_by": {"rank": cause.rank, "node": cause.node or None},
        "exit_code": cause.code,
        "signal": cause.signal or None,
        "retry": cause.retry,
        "error": cause.text or None,
        "says": cause.says or None,
        "evidence": {
            "file": cause.file or None,
            "line": cause.line or None,
            "lines": list(cause.lines),
        },
        "last_lines": list(cause.last_lines),
        "consequences": list(cause.consequences),
        "ruled_out": list(cause.ruled_out),
        "fixes": [{"text": r.text or None, "command": r.command or None} for r in found.remedies],
    }
