"""Streams through the login host: to ports of hosts that it can reach, and to programs on it."""

from __future__ import annotations

import contextlib

import paramiko

from jobgen.shell import split_lines
from jobgen.transport.interactive import build_remote_line
from jobgen.transport.prompts import strip_controls
from jobgen.transport.ssh.link import WINDOW, Link

_PIECE = 1 << 16


class TunnelStream:
    """One direct-tcpip channel."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel
        self.sendall = channel.sendall

    def recv(self, count: int, /) -> bytes:
        """At least one byte; empty at the end."""
        return self._channel.recv(count)

    def shutdown_write(self) -> None:
        """End what this side sends."""
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._channel.shutdown_write()

    def close(self) -> None:
        """End both directions."""
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._channel.close()

    def describe_failure(self) -> str:
        """Nothing: the server has said that it is open."""
        return ""


class ProgramChannel(TunnelStream):
    """A session whose program's standard input and output are the connection."""

    def __init__(self, channel: paramiko.Channel) -> None:
        super().__init__(channel)
        self._received = False

    def recv(self, count: int, /) -> bytes:
        """What the program wrote; empty at its end."""
        data = super().recv(count)
        self._received = self._received or bool(data)
        return data

    def describe_failure(self) -> str:
        """Its first line of standard error, if it ended before anything came."""
        if self._received:
            return ""
        lines = split_lines(self._channel.recv_stderr(_PIECE).decode("utf-8", "replace"))
        return strip_controls(lines[0]) if lines else ""


def start_program(link: Link, where: str, script: str) -> ProgramChannel:
    """The streams of a POSIX script. Raises ConnectionError, and Unreachable where the link is
    lost."""
    try:
        channel = link.transport.open_session(window_size=WINDOW, timeout=link.patience)
        channel.settimeout(link.patience)
        channel.exec_command(build_remote_line(script))
    except (paramiko.SSHException, EOFError, OSError) as error:
        if link.transport.is_active():
            raise ConnectionError(str(error) or "no answer") from None
        raise link.explain_loss(where) from None
    channel.settimeout(None)
    return ProgramChannel(channel)


def open_tunnel(link: Link, where: str, host: str, port: int) -> TunnelStream:
    """A stream to this port. Raises ConnectionError, and Unreachable where the link is lost."""
    try:
        channel = link.transport.open_channel(
            "direct-tcpip",
            (host, port),
            ("127.0.0.1", 0),
            window_size=WINDOW,
            timeout=link.patience,
        )
    except paramiko.ChannelException as error:
        raise ConnectionError(f"open failed: {error.text}") from None
    except (paramiko.SSHException, EOFError, OSError) as error:
        if link.transport.is_active():
            raise ConnectionError(str(error) or "no answer") from None
        raise link.explain_loss(where) from None
    channel.settimeout(None)
    return TunnelStream(channel)
