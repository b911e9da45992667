"""Ports on loopback that no other process takes before the test's own server does."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


@contextmanager
def reserved_port(among: Iterable[int] = (0,)) -> Iterator[int]:
    """A port that stays reserved, the first free one among these; 0 is any.

    It is bound and does not listen: connections are refused, and a server that reuses addresses, as
    sshd and torch's store do, may have it.
    """
    with socket.socket() as plug:
        # without SO_REUSEADDR: where another process has reserved it, it is not free
        number = next(port for port in among if _bind(plug, port))
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        yield number or plug.getsockname()[1]


def _bind(plug: socket.socket, port: int) -> bool:
    try:
        plug.bind(("127.0.0.1", port))
    except OSError:
        return False
    return True
