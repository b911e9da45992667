"""No connection at all: the scripts run on this machine, with the semantics of a remote one."""

from __future__ import annotations

import socket

from jobgen.transport.interactive import run_program
from jobgen.transport.pipes import PipeChannel
from jobgen.transport.protocol import BOOTSTRAP, Session
from jobgen.transport.streams import ProgramStream, SocketStream

_PATIENCE = 15.0
"""Seconds that a host of the cluster may take to answer."""


class LocalTransport(Session):
    """A Transport to this machine; in a session of its own, so that Ctrl-C does not reach it."""

    def __init__(self) -> None:
        words = ["/bin/sh", "-c", BOOTSTRAP]
        super().__init__(PipeChannel(words, own_session=True), "this machine")

    def run_interactively(self, script: str, *, tty: bool) -> int:
        """The exit code of a script at our own terminal, whatever ``tty`` asks for."""
        del tty
        return run_program(["/bin/sh", "-c", script], patient=True)

    def open_stream(self, host: str, port: int) -> SocketStream:
        """A connection to a port. Raises ConnectionError."""
        try:
            plug = socket.create_connection((host, port), _PATIENCE)
        except OSError as error:
            raise ConnectionError(f"connect failed: {error.strerror or error}") from None
        plug.settimeout(None)
        return SocketStream(plug)

    def open_program(self, script: str) -> ProgramStream:
        """The streams of a script."""
        return ProgramStream(["/bin/sh", "-c", script])
