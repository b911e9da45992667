"""SSH by paramiko, imported nowhere else: one connection, verified, with one long-lived channel."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from jobgen.model.record import Login
from jobgen.transport.protocol import Session
from jobgen.transport.route import find_route
from jobgen.transport.ssh import _library  # noqa: F401 - before all that imports paramiko
from jobgen.transport.ssh.channel import SshChannel
from jobgen.transport.ssh.link import Link, open_link
from jobgen.transport.ssh.trust import Pin

if TYPE_CHECKING:
    from jobgen.transport.ssh.tunnel import ProgramChannel, TunnelStream


class SshTransport(Session):
    """A Transport to the host of this login, connected. Raises Unreachable with what to do."""

    def __init__(self, login: Login, *, say: Callable[[str], None] | None = None) -> None:
        target = find_route(login.host, login.user, login.port)
        link: Link | None = None
        for hop in (*target.list_jumps(), target):
            pin = Pin(login.fingerprint, login.known_hosts_too) if hop is target else Pin()
            link = open_link(hop, through=link, pin=pin, auth=login.auth, say=say)
        assert link is not None  # noqa: S101
        super().__init__(SshChannel(link, target.label), target.label)
        self._link = link
        self.took = link.took

    def run_interactively(self, script: str, *, tty: bool) -> int:
        """The exit code of a script, in a session of its own on this connection."""
        from jobgen.transport.ssh.terminal_session import run_script

        return run_script(self._link, self._where, script, tty=tty)

    def open_stream(self, host: str, port: int) -> TunnelStream:
        """A connection through the login host. Raises ConnectionError, Unreachable."""
        from jobgen.transport.ssh.tunnel import open_tunnel

        return open_tunnel(self._link, self._where, host, port)

    def open_program(self, script: str) -> ProgramChannel:
        """The streams of a script, in a session of its own on this connection."""
        from jobgen.transport.ssh.tunnel import start_program

        return start_program(self._link, self._where, script)
