"""Streams over what this machine has: sockets, and the pipes of a child process."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Sequence

from jobgen.shell import split_lines
from jobgen.transport.prompts import strip_controls

_PATIENCE = 5.0
"""Seconds in which a program ends that has been asked to."""


class SocketStream:
    """A connected socket."""

    def __init__(self, plug: socket.socket) -> None:
        self._plug = plug
        self.recv, self.sendall = plug.recv, plug.sendall

    def shutdown_write(self) -> None:
        """End what this side sends."""
        with contextlib.suppress(OSError):
            self._plug.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """End both directions, and wake whoever waits for it."""
        with contextlib.suppress(OSError):
            self._plug.shutdown(socket.SHUT_RDWR)
        self._plug.close()

    def describe_failure(self) -> str:
        """Nothing: a socket is connected, or it is not there."""
        return ""


class ProgramStream:
    """A program whose standard input and output are a connection, as those of ``ssh -W``."""

    def __init__(self, words: Sequence[str]) -> None:
        self._child = subprocess.Popen(
            list(words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd="/",
            start_new_session=True,
        )
        assert self._child.stdin is not None  # noqa: S101
        assert self._child.stdout is not None  # noqa: S101
        self._input, self._output = self._child.stdin, self._child.stdout
        self._received = False

    def recv(self, count: int, /) -> bytes:
        """What the program wrote; empty at its end."""
        data = os.read(self._output.fileno(), count)
        self._received = self._received or bool(data)
        return data

    def sendall(self, data: bytes, /) -> None:
        """Hand all of it to the program."""
        left = memoryview(data)
        while left:
            left = left[os.write(self._input.fileno(), left) :]

    def shutdown_write(self) -> None:
        """Close the program's input."""
        with contextlib.suppress(OSError):
            self._input.close()

    def describe_failure(self) -> str:
        """Its first line of standard error, if it ended with an error before anything came."""
        if self._received:
            return ""
        self.shutdown_write()  # else one that is connected would wait for more
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(_PATIENCE)
        if not self._child.returncode or self._child.stderr is None:
            return ""
        lines = split_lines(self._child.stderr.read().decode("utf-8", "replace"))
        return strip_controls(lines[0]) if lines else f"ssh exited with {self._child.returncode}"

    def close(self) -> None:
        """End the program."""
        with contextlib.suppress(ProcessLookupError):
            self._child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(_PATIENCE)
        for pipe in (self._input, self._output, self._child.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
