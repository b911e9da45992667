"""A part of a long line that keeps what matters in it."""

from __future__ import annotations

from jobgen.diagnose.failure_rules import match_line

LONGEST = 600
"""Characters of a line that are kept as evidence."""
_WIDE = 80
"""Characters from which on the match of a rule is as good as the line."""
_BEFORE = 0.25
"""The share of an excerpt that stands before what matters, if the line begins before it."""


def cut_line(text: str, width: int = LONGEST) -> str:
    """At most ``width`` characters of a line, with those by which a rule knows it.

    >>> cut_line("x" * 40 + " CUDA out of memory " + "y" * 40, 30)
    '…CUDA out of memory yyyyyyyyy…'
    >>> cut_line("step 1: " + "x" * 40, 12)
    'step 1: xxx…'
    """
    if len(text) <= width:
        return text
    begin, end = _find_focus(text)
    if end < width:
        return text[: width - 1] + "…"
    start = max(0, min(begin - int(width * _BEFORE), len(text) - width + 1))
    blank = text.find(" ", start, begin)
    start = blank + 1 if start and blank >= 0 else start
    part = text[start : start + width - 1]
    return "…" + (part if start + width - 1 >= len(text) else part[:-1] + "…")


def _find_focus(text: str) -> tuple[int, int]:
    """Where a line has what a rule knows it by; its beginning if no rule does."""
    rule = match_line(text)
    match = rule.pattern.search(text) if rule else None
    if rule is None or match is None or not match[0]:
        return 0, 0
    begin, end = match.span()
    if end - begin > _WIDE:
        places = [(text.find(needle, begin), needle) for needle in rule.needles]
        begin, needle = min((place for place in places if place[0] >= 0), default=(begin, ""))
        end = begin + len(needle)
    return begin, end
