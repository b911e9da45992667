"""Xid errors in the kernel's log, as ``dmesg`` and ``journalctl -k`` print them.

What each means: NVIDIA, Xid Errors, https://docs.nvidia.com/deploy/xid-errors/.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from jobgen.survey.hardware.text import lines

_XID = re.compile(
    r"NVRM: (?:GPU at )?Xid \((?:PCI:)?([0-9A-Fa-f:.]{7,20})\): ([0-9]{1,4}),? ?(.{0,200})"
)
MOST = 1000


class Xid(NamedTuple):
    """One error: the GPU's bus address, its number and what follows."""

    bus: str
    number: int
    meaning: str


def parse(text: str) -> tuple[Xid, ...]:
    """The first thousand Xid errors, in the order of the log."""
    found: list[Xid] = []
    for line in lines(text):
        if len(found) < MOST and (match := _XID.search(line)):
            found.append(Xid(match[1], int(match[2]), match[3]))
    return tuple(found)
