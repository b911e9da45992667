"""One SSH session as a Channel."""

from __future__ import annotations

import contextlib
from typing import cast

import paramiko

from jobgen.errors import Diagnostic, Unreachable
from jobgen.transport.protocol import BOOTSTRAP, ERR, OUT, Received
from jobgen.transport.ssh.auth import explain_lost
from jobgen.transport.ssh.link import WINDOW, Link

_PIECE = 1 << 20
_SLICE = 0.05
"""Seconds to wait for room to send, before looking again whether something has come."""


class SshChannel:
    """A session that runs the bootstrap line."""

    def __init__(self, link: Link, where: str) -> None:
        self._link = link
        try:
            with link.wire.limit_time(link.patience):
                self._channel = link.transport.open_session(
                    window_size=WINDOW, timeout=link.patience
                )
                self._channel.exec_command(BOOTSTRAP)
        except (paramiko.SSHException, EOFError, OSError) as error:
            alive = link.transport.is_active()
            link.close()
            if not alive:
                raise explain_lost(where) from None
            problem = Diagnostic(
                "J404",
                f"login succeeded, but the server runs no command: {error}",
                hint="the account may be limited to copying files, or have too many sessions",
            )
            raise Unreachable(problem) from None

    def exchange(
        self, data: memoryview, awaited: int, timeout: float
    ) -> tuple[int, list[Received]]:
        """Send what the window takes; receive what is there, or wait for the awaited stream."""
        taken = self._send(data, min(timeout, _SLICE)) if data else 0
        received = self._ready()
        if not data and not received:
            received = self._wait(awaited, timeout)
        return taken, received

    def _send(self, data: memoryview, timeout: float) -> int:
        self._channel.settimeout(timeout)
        taken = 0
        while taken < len(data) and not self._any_ready():
            try:
                # it takes what fits a packet, of a memoryview without a copy
                count = self._channel.send(cast("bytes", data[taken:]))
            except TimeoutError:
                break
            except (OSError, EOFError, paramiko.SSHException):
                return len(data)  # it is closed: the end of its streams tells the rest
            if not count:
                return len(data)
            taken += count
        return taken

    def _any_ready(self) -> bool:
        return self._channel.recv_ready() or self._channel.recv_stderr_ready()

    def _ready(self) -> list[Received]:
        received = []
        if self._channel.recv_ready():
            received.append(self._receive(OUT))
        if self._channel.recv_stderr_ready():
            received.append(self._receive(ERR))
        return received

    def _receive(self, stream: int) -> Received:
        """What has come; the end where the link broke while paramiko acknowledged it, which loses
        that piece. Raises TimeoutError."""
        receive = self._channel.recv if stream == OUT else self._channel.recv_stderr
        try:
            return stream, receive(_PIECE)
        except TimeoutError:
            raise
        except (OSError, EOFError, paramiko.SSHException):
            return stream, b""

    def _wait(self, awaited: int, timeout: float) -> list[Received]:
        # what comes on the other stream meanwhile must not fill the window that both share
        self._channel.settimeout(min(timeout, 4 * _SLICE))
        try:
            return [self._receive(awaited)]
        except TimeoutError:
            return []

    def abort(self) -> None:
        """Cut the connection."""
        self._link.cut()

    def close(self) -> None:
        """End the session and the connection."""
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._channel.close()
        self._link.close()

    def describe_end(self) -> str:
        """What the watch, or paramiko's reader, has seen last."""
        if self._link.why:
            return self._link.why
        error = self._link.transport.get_exception()
        return str(error) if error else ""
