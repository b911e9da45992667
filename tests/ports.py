"""Ports on loopback that no other process takes before the test's own server does."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reserved_port() -> Iterator[int]:
    """A port that stays reserved. It is bound and does not listen: connections are refused, and a
    server that reuses addresses, as sshd does, may have it."""
    with socket.socket() as plug:
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        plug.bind(("127.0.0.1", 0))
        yield plug.getsockname()[1]
