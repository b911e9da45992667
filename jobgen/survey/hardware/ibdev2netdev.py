"""``ibdev2netdev`` and ``ibdev2netdev -v``: which network interface belongs to which RDMA port.

Source of the format: the script of that name in Mellanox OFED (mlnx-tools).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from jobgen.survey.hardware.text import lines

_WORD = r"[A-Za-z0-9_.-]{1,64}"
_PLAIN = re.compile(rf"({_WORD}) port ([0-9]{{1,3}}) ==> ({_WORD}) \(([A-Za-z]{{1,16}})\)")
_TAIL = re.compile(
    rf"port ([0-9]{{1,3}}) \(([A-Z_ ]{{1,16}})\) ==> ({_WORD}) \(([A-Za-z]{{1,16}})\)"
)
_PCI = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")


class Pairing(NamedTuple):
    """An RDMA port and its network interface; ``up`` is the interface's state."""

    device: str
    port: int
    netdev: str
    up: bool
    bus: str = ""


def parse(text: str) -> tuple[Pairing, ...]:
    """Every pairing, in the order printed."""
    return tuple(p for p in map(_pairing, lines(text)) if p)


def _pairing(line: str) -> Pairing | None:
    words = line.strip()
    if match := _PLAIN.fullmatch(words):
        return Pairing(match[1], int(match[2]), match[3], match[4].lower() == "up")
    bus, _, rest = words.partition(" ")
    device = rest.split(" ", 1)[0]
    at = words.find(" port ")
    if at < 0 or not _PCI.fullmatch(bus) or not re.fullmatch(_WORD, device):
        return None
    match = _TAIL.fullmatch(words[words.rfind(" port ") + 1 :])
    up = bool(match) and match is not None and match[4].lower() == "up"
    return Pairing(device, int(match[1]), match[3], up, bus) if match else None
