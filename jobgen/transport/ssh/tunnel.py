"""Connections through the login host to ports of hosts that it can reach."""

from __future__ import annotations

import contextlib

import paramiko

from jobgen.transport.ssh.link import WINDOW, Link


class TunnelStream:
    """One direct-tcpip channel."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel
        self.recv, self.sendall = channel.recv, channel.sendall

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
