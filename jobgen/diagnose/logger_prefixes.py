"""Tracebacks that a logger or a collector of logs wrote: without what stands before each line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_HEAD = re.compile(
    r"(?P<prefix>\S.{0,118}?[\]:|>)\t ] ?)"
    r'(?:Traceback \(most recent call last\):|(?:  )?File "[^"]+", line \d+, in )'
)
"""A line of a traceback that does not begin with it."""
_HARMLESS = re.compile(r"\b(?:WARN(?:ING)?|DEBUG)\b", re.IGNORECASE)
_LONGEST = 12
"""Lines of a message whose prefix is taken away."""


def strip_loggers(texts: Iterable[str]) -> Iterator[str]:
    """The lines, those of a traceback without a prefix that differs in numbers only.

    >>> list(strip_loggers(['E 10:01 a.py:7] Traceback (most recent call last):',
    ...     'E 10:02 a.py:7] KeyError: 0', 'step 1']))
    ['Traceback (most recent call last):', 'KeyError: 0', 'step 1']
    """
    prefix: re.Pattern[str] | None = None
    left = 0
    for text in texts:
        begun = _HEAD.match(text) if "Traceback (" in text or 'File "' in text else None
        if begun and not (left and prefix and prefix.match(text)):
            harmless = _HARMLESS.search(begun["prefix"])
            prefix, left = (None, 0) if harmless else (_generalize(begun["prefix"]), _LONGEST)
        match = prefix.match(text) if prefix and left else None
        if match is None:
            yield text
            continue
        rest = text[match.end() :]
        left -= not rest.startswith((" ", "File ", "Traceback "))
        yield rest


def _generalize(prefix: str) -> re.Pattern[str]:
    """The prefix of a line → that of the lines around it, written at other times."""
    return re.compile(r"\d+".join(map(re.escape, re.split(r"\d+", prefix))))
