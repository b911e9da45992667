"""Whether the files that are uploaded mention a word: read safely, and only so much of them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobgen.upload import Entry

LARGEST = 1 << 20
"""Bytes: a larger file is no program."""
MOST = 64 << 20
"""Bytes of all files together; beyond, nobody can say."""


def mentions(root: Path, entries: Iterable[Entry], word: bytes) -> bool | None:
    """Whether one of these files has the word; None if not all programs among them were read."""
    left = MOST
    for entry in sorted(entries, key=lambda entry: not entry.path.endswith((".py", ".sh"))):
        if entry.size > LARGEST:
            continue
        left -= entry.size
        if left < 0:
            return None
        content = _read(root / entry.path)
        if content is None:
            return None
        if word in content:
            return True
    return False


def _read(path: Path) -> bytes | None:
    """A regular file's bytes; None for what it may have become since it was listed."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(number, "rb") as stream:
        regular = stat.S_ISREG(os.fstat(number).st_mode)
        return stream.read(LARGEST) if regular else None
