"""relay_port.py PORT: standard input and output become a connection to a port of this node.

A program that listens on the loopback address accepts no other connections. bash cannot end one
direction of a connection alone, which many clients do after their request. Python 3.7 or later.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
import threading

ADDRESSES = ("127.0.0.1", "::1", socket.gethostname())
IDLE = 60
"""Seconds without an answer after which a client that has sent all is taken for gone."""


def connect(port: int) -> socket.socket:
    """A connection to the port; exits with the first reason if there is none."""
    reason: object = None
    for address in ADDRESSES:
        try:
            plug = socket.create_connection((address, port), 15)
        except OSError as error:
            reason = reason or error.strerror or error
        else:
            plug.settimeout(None)
            return plug
    return sys.exit(f"connect failed: {reason}")


def send(plug: socket.socket) -> None:
    """Send what comes on standard input, then end this direction."""
    with contextlib.suppress(OSError):  # the program may have hung up
        for data in iter(lambda: os.read(0, 1 << 16), b""):
            plug.sendall(data)
        plug.shutdown(socket.SHUT_WR)


def receive(plug: socket.socket, sender: threading.Thread) -> None:
    """Print what the port answers, to its end."""
    while True:
        if not select.select([plug], [], [], IDLE)[0]:
            if sender.is_alive():
                continue
            return
        data = plug.recv(1 << 16)
        if not data:
            return
        while data:
            data = data[os.write(1, data) :]


def main() -> None:
    """Relay one connection."""
    plug = connect(int(sys.argv[1]))
    sender = threading.Thread(target=send, args=(plug,), daemon=True)
    sender.start()
    with contextlib.suppress(OSError):  # the client may have hung up
        receive(plug, sender)
    os._exit(0)  # the sender may still wait for standard input


main()
