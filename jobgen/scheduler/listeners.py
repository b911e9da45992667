"""Who listens on a port of a node, out of the kernel's own table of its sockets."""

from __future__ import annotations

import re
from enum import StrEnum

from jobgen.shell import Command, split_lines

TABLES = Command.of("cat", "/proc/net/tcp", "/proc/net/tcp6")
"""Unlike a connection, reading these cannot disturb a program that waits for one client."""
_LISTEN = "0A"
_ROW = re.compile(
    r"\s*\d+: ([0-9A-F]{8}|[0-9A-F]{32}):([0-9A-F]{4}) [0-9A-F]+:[0-9A-F]{4} ([0-9A-F]{2}) .*"
)
# the kernel prints each 32 bits of an address as a number of a little-endian machine
_LOOPBACK = re.compile(
    r"[0-9A-F]{6}7F|0{24}01000000|0{16}FFFF0000[0-9A-F]{6}7F|0{31}1|7F[0-9A-F]{6}"
)


class Listening(StrEnum):
    """From where a port of a node can be reached."""

    NETWORK = "network"
    NODE = "node"
    """From the node itself alone: a program listens on its loopback address."""
    NOWHERE = "nowhere"
    """No program listens."""


def parse_listeners(text: str, port: int) -> Listening | None:
    """From where this port can be reached; None where the text is no table of sockets.

    >>> parse_listeners("  0: 0100007F:1776 00000000:0000 0A 0:0 00:00 0 7 0 1", 6006)
    <Listening.NODE: 'node'>
    """
    rows = [row for line in split_lines(text) if (row := _ROW.fullmatch(line))]
    if not rows and "local_address" not in text:
        return None
    listening = [row[1] for row in rows if row[3] == _LISTEN and int(row[2], 16) == port]
    if not listening:
        return Listening.NOWHERE
    alone = all(_LOOPBACK.fullmatch(address) for address in listening)
    return Listening.NODE if alone else Listening.NETWORK
