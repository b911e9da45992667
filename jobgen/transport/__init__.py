"""The one door to the world: a script and its payload in, bytes out, within a deadline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from jobgen.model.record import Login
    from jobgen.shell import Result

DEADLINE = 30.0
"""Seconds a call may take where the caller says nothing else."""


@dataclass(frozen=True, slots=True)
class Payload:
    """``size`` bytes for the script's standard input, made as they are sent."""

    size: int
    chunks: Iterable[bytes]


class ByteStream(Protocol):
    """Bytes both ways; each direction ends on its own. Methods raise OSError once it is gone."""

    def recv(self, count: int, /) -> bytes:
        """At least one byte; empty at the end of what the other side sends."""

    def sendall(self, data: bytes, /) -> None:
        """Send all of it."""

    def shutdown_write(self) -> None:
        """End what this side sends."""

    def close(self) -> None:
        """End both directions; may be called twice."""

    def describe_failure(self) -> str:
        """Why it never came about, once it has ended; empty if it did."""


class Transport(Protocol):
    """A connection that runs POSIX sh scripts on the machine that submits."""

    noise: bytes
    """What the login shell printed of its own accord before the first answer."""
    took: Mapping[str, float]
    """Step of connecting → seconds; empty where the steps cannot be told apart."""

    def call(
        self,
        script: str,
        payload: Payload | None = None,
        *,
        deadline: float = DEADLINE,
        sink: Callable[[bytes], None] | None = None,
    ) -> Result:
        """What the script printed and its exit code.

        ``script`` runs under ``/bin/sh`` in the home directory with the payload (or nothing) on
        standard input; ``shell.script(text, *args)`` puts user data into it. Standard error is
        part of ``Result.err``. With ``sink`` the output is handed over as it comes and
        ``Result.out`` is empty. Raises Unreachable when the connection is lost or the deadline
        (seconds, wall clock) passes: then nothing is known of what the script did.
        """

    def run_interactively(self, script: str, *, tty: bool) -> int:
        """The exit code of a script that has this program's own standard streams.

        With ``tty`` it has a terminal over there, as large as this one, to which every key goes.
        Raises Unreachable where the connection is lost.
        """

    def open_stream(self, host: str, port: int) -> ByteStream:
        """A connection from the machine that submits to a port of a host that it can reach.

        Raises ConnectionError where that host refuses it, Unreachable where the connection to
        the machine that submits is lost. May be called from several threads.
        """

    def open_program(self, script: str) -> ByteStream:
        """The standard input and output of a script on the machine that submits.

        Raises ConnectionError where it cannot be started, Unreachable where the connection is
        lost. May be called from several threads.
        """

    def close(self) -> None:
        """End the connection; may be called twice."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


def connect(login: Login, *, say: Callable[[str], None] | None = None) -> Transport:
    """A Transport for this login, connected. Raises Unreachable with what to do.

    ``say`` receives lines that a person should see (banner, prompts of a two-factor login).
    """
    if login.backend == "local":
        from jobgen.transport.this_machine import LocalTransport

        return LocalTransport()
    if login.backend == "openssh":
        from jobgen.transport.openssh import OpensshTransport

        return OpensshTransport(login, say=say)
    from jobgen.transport.ssh import SshTransport

    return SshTransport(login, say=say)
