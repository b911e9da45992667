"""Any text as lines and numbers that are safe to read on."""

from __future__ import annotations

import re
from collections.abc import Iterator

LIMIT = 1_000_000
"""Characters that are read: ``nvidia-smi -q`` of sixteen GPUs has some 200,000."""
WIDTH = 20_000
"""Characters of a line that are read: one with 250 devices has some 2,000."""

_ESCAPE = re.compile(r"\x1b\[[0-9;?]{0,32}[A-Za-z]")


def clean_lines(text: str, *, tabs: bool = False) -> Iterator[str]:
    """Each line: no escape sequence, no control character, no blanks behind; tabs as spaces."""
    for line in text[:LIMIT].split("\n"):
        short = line[:WIDTH]
        if not short.isprintable():
            short = _ESCAPE.sub("", short).replace("\xa0", " ")
            short = short if tabs else short.replace("\t", " ")
            short = "".join(c for c in short if c.isprintable() or c == "\t")
        yield short.rstrip()


def parse_fields(text: str, mark: str = ":") -> Iterator[tuple[str, str]]:
    """Each line of the form ``name: value``, both without blanks around."""
    for line in clean_lines(text):
        name, found, value = line.partition(mark)
        if found and name.strip():
            yield name.strip(), value.strip()


def parse_integer(word: str) -> int | None:
    """A whole number of at most 18 digits; None for anything else."""
    return int(word) if re.fullmatch(r"[0-9]{1,18}", word) else None


def parse_number(word: str) -> float | None:
    """A decimal number of at most 15 digits on each side; None for anything else."""
    return float(word) if re.fullmatch(r"-?[0-9]{1,15}(\.[0-9]{1,15})?", word) else None


def parse_first_number(words: str) -> float | None:
    """The number that a text begins with: 200 of ``200 Gb/sec (4X HDR)``."""
    match = re.match(r"-?[0-9]{1,15}(\.[0-9]{1,15})?(?![0-9.])", words)
    return float(match[0]) if match else None
