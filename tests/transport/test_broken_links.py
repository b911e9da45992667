"""A link that breaks while paramiko acknowledges what has come."""

from __future__ import annotations

import paramiko
import pytest

from jobgen.transport.protocol import ERR, OUT
from jobgen.transport.ssh.channel import SshChannel


class Breaking:
    """A channel with output, whose acknowledgement meets a closed connection: paramiko's
    ``Packetizer.write_all`` raises EOFError then."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def recv_ready(self) -> bool:
        return True

    recv_stderr_ready = recv_ready

    def recv(self, _: int) -> bytes:
        raise self.error

    recv_stderr = recv


@pytest.mark.parametrize("error", [EOFError(), OSError("closed"), paramiko.SSHException("gone")])
def test_a_link_that_breaks_at_an_acknowledgement_is_the_end_of_the_streams(
    error: Exception,
) -> None:
    channel = SshChannel.__new__(SshChannel)
    channel._channel = Breaking(error)  # type: ignore[assignment]
    assert channel.exchange(memoryview(b""), OUT, 1.0) == (0, [(OUT, b""), (ERR, b"")])
