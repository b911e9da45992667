"""The answer of ``doctor``."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, Any

from jobgen.cli.layout import count, fold, pad
from jobgen.cli.output import Ink, defuse
from jobgen.errors import Exit

if TYPE_CHECKING:
    from jobgen.app.doctor import Examination
    from jobgen.survey.health import Finding, Status

_SIGNS: dict[Status, tuple[str, str]] = {
    "ok": ("✓", "good"),
    "warning": ("!", "busy"),
    "failed": ("✗", "bad"),
    "unknown": ("?", "faint"),
}
_NAME = 12
"""Columns of the name of a check: the part of its id behind the point."""


def screen(found: Examination, ink: Ink) -> str:
    """The findings in groups, each fault with its fix below it, and their number."""
    lines: list[str] = []
    group = ""
    for finding in found.findings:
        if finding.group != group:
            group = finding.group
            lines += [*([""] if lines else []), ink("strong", defuse(group))]
        lines += _finding(finding, ink)
    return "\n".join([*lines, "", _summary(found, ink), *_next(found), ""])


def _finding(finding: Finding, ink: Ink) -> list[str]:
    sign, style = _SIGNS[finding.verdict.status]
    verdict = finding.verdict
    indent = " " * (_NAME + 6)
    took = f" ({_took(verdict.seconds)})" if verdict.seconds is not None else ""
    said = fold(f"{defuse(verdict.found)}{took}", max(ink.width - len(indent), 20), indent)
    lines = [f"  {ink(style, sign)} {pad(finding.id.partition('.')[2], _NAME)}  {said}"]
    if verdict.fix:
        text = fold(defuse(verdict.fix), max(ink.width - len(indent) - 5, 20), indent + "     ")
        lines.append(f"{indent}{ink('note', 'fix:')} {text}")
    return lines


def _took(seconds: float) -> str:
    return f"{seconds * 1000:.0f}ms" if seconds < 0.9995 else f"{seconds:.1f}s"


def _summary(found: Examination, ink: Ink) -> str:
    failures, warnings, passed = (_number(found, status) for status in ("failed", "warning", "ok"))
    unseen = _number(found, "unknown")
    parts = []
    if failures:
        parts.append(ink("bad", f"{count(failures, 'check')} failed"))
    if warnings:
        parts.append(ink("busy", count(warnings, "warning")))
    parts.append(f"{passed} passed" if parts else ink("good", f"{count(passed, 'check')} passed"))
    if unseen:
        parts.append(f"{unseen} skipped")
    return f"{', '.join(parts)} ({_took(found.seconds)})"


def _next(found: Examination) -> list[str]:
    """The next command."""
    codes = [f.verdict.code for f in found.findings if f.verdict.status == "failed"]
    if codes:
        return [f"More: jobgen explain {codes[0]}"] if codes[0] != "J000" else []
    if found.job:
        return [f"Next: jobgen submit {quote(defuse(found.job))} -c {defuse(found.cluster)}"]
    if found.cluster:
        return [f"Next: jobgen plan job.yaml -c {defuse(found.cluster)}"]
    names = [defuse(name) for name in found.profiles]
    if not names:
        return ["Check a cluster: jobgen doctor -c NAME (names: jobgen cluster ls)"]
    return [f"Check a cluster: jobgen doctor -c {names[0]}", *_others(names[1:])]


def _others(names: list[str]) -> list[str]:
    return [f"Other profiles of yours: {', '.join(names[:8])}"] if names else []


def _number(found: Examination, status: Status) -> int:
    return sum(finding.verdict.status == status for finding in found.findings)


def data(found: Examination) -> dict[str, Any]:
    """An examination as plain data."""
    statuses: tuple[Status, ...] = ("ok", "warning", "failed", "unknown")
    return {
        "cluster": found.cluster or None,
        "job": found.job or None,
        "well": found.well,
        "seconds": round(found.seconds, 3),
        "counts": {status: _number(found, status) for status in statuses},
        "checks": [
            {"id": f.id, "group": f.group, "asks": f.asks, **f.verdict._asdict()}
            for f in found.findings
        ],
    }


def choose_exit(found: Examination) -> Exit:
    """0 if nothing failed, else 1."""
    return Exit.DONE if found.well else Exit.FAILED
