"""Ports that no other process takes before the test's own server does."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reserved_port() -> Iterator[int]:
    """A port that stays reserved.

    It is bound and does not listen: connections are refused, and a server that reuses addresses, as
    sshd and torch's store do, may have it.
    """
    dual = socket.has_dualstack_ipv6()
    with socket.socket(socket.AF_INET6 if dual else socket.AF_INET) as plug:
        if dual:
            plug.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # on all addresses, as a server may want it, and without SO_REUSEADDR: a port that a
        # connection of another process has on any of them is passed over
        plug.bind(("", 0))
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        yield plug.getsockname()[1]
