"""The answer of ``doctor``."""

from __future__ import annotations

from itertools import groupby
from shlex import quote
from typing import TYPE_CHECKING, Any

from jobgen.cli.diagnostics import PLAIN
from jobgen.cli.layout import fold, pad
from jobgen.cli.output import Ink, defuse
from jobgen.errors import Exit
from jobgen.wording import count

if TYPE_CHECKING:
    from jobgen.app.doctor import Examination
    from jobgen.survey.health import Finding, Status

_SIGNS: dict[Status, tuple[str, str]] = {
    "ok": ("✓", "good"),
    "warning": ("!", "busy"),
    "failed": ("✗", "bad"),
    "unknown": ("?", "faint"),
}
_JOBS_HERE = "local"
"""The part before the point of checks of what jobs on the local cluster need."""
_SCREEN = 25
"""Lines of a screen."""
_NAME = 12
"""Columns of the name of a check: the part of its id behind the point."""


def screen(found: Examination, ink: Ink, *, verbose: bool = False) -> str:
    """The findings in groups, each fault with its fix below it, and their number.

    Where they do not fit a screen, those that passed are only named, unless ``verbose``.
    """
    lines = [line for _, group in _list_groups(found) for line in _draw_group(group, ink)]
    last = ["", _summary(found, ink), *_next(found), ""]
    if len(lines) + len(last) > _SCREEN and not verbose:
        lines = [line for _, group in _list_groups(found) for line in _draw_brief(group, ink)]
        last.insert(2, "Details of the checks that passed: -v")
    return "\n".join([*lines[1:], *last])


def _list_groups(found: Examination) -> list[tuple[str, list[Finding]]]:
    return [(name, list(group)) for name, group in groupby(found.findings, lambda f: f.group)]


def _draw_group(group: list[Finding], ink: Ink) -> list[str]:
    head = ink("strong", defuse(group[0].group))
    return ["", head, *(line for finding in group for line in _finding(finding, ink))]


def _draw_brief(group: list[Finding], ink: Ink) -> list[str]:
    """The faults of a group; the checks that passed in one line."""
    passed = [_get_name(f) for f in group if f.verdict.status == "ok"]
    lines = [line for f in group if f.verdict.status != "ok" for line in _finding(f, ink)]
    sign, style = _SIGNS["ok"]
    names = fold(", ".join(passed), max(ink.width - 4, 20), "    ")
    head = ink("strong", defuse(group[0].group))
    return ["", head, *lines, *([f"  {ink(style, sign)} {names}"] if passed else [])]


def _get_name(finding: Finding) -> str:
    return defuse(finding.id.partition(".")[2])


def _finding(finding: Finding, ink: Ink) -> list[str]:
    sign, style = _SIGNS[finding.verdict.status]
    verdict = finding.verdict
    indent = " " * (_NAME + 6)
    took = f" ({_took(verdict.seconds)})" if verdict.seconds is not None else ""
    said = fold(f"{defuse(verdict.found)}{took}", max(ink.width - len(indent), 20), indent)
    lines = [f"  {ink(style, sign)} {pad(_get_name(finding), _NAME)}  {said}"]
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
    failed = [f.verdict.code for f in found.findings if f.verdict.status == "failed"]
    if failed:
        known = [code for code in failed if code not in ("", PLAIN)]
        return [f"More: jobgen explain {known[0]}"] if known else []
    here = [f.verdict for f in found.findings if f.id.startswith(f"{_JOBS_HERE}.")]
    fixes = [verdict.fix for verdict in here if verdict.status == "warning" and verdict.fix]
    if found.cluster and fixes:
        return [f"Next: {defuse(fixes[0])}"]
    if found.job:
        return [f"Next: jobgen submit {quote(defuse(found.job))} -c {defuse(found.cluster)}"]
    if found.cluster:
        return [f"Next: jobgen plan job.yaml -c {defuse(found.cluster)}"]
    names = [defuse(name) for name in found.profiles]
    if not names:
        return ["Check a cluster: jobgen doctor -c NAME (names: jobgen cluster ls --all)"]
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
