"""A remote script at the terminal, or with the standard streams, of this machine."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import termios
import tty as terminals
from collections.abc import Iterator

import paramiko

from jobgen.errors import Diagnostic, Unreachable
from jobgen.transport.interactive import build_remote_line
from jobgen.transport.ssh.link import WINDOW, Link

_INPUT, _OUTPUT, _ERRORS = 0, 1, 2
_PIECE = 1 << 16
_SLICE = 0.05
"""Seconds to wait for room in the channel before looking whether something has come."""


def run_script(link: Link, where: str, script: str, *, tty: bool) -> int:
    """The exit code of this script. Raises Unreachable where the connection is lost."""
    # watched before it is read for the first time: else a change between the two would be lost
    with _watch_size() as resized:
        channel = _start(link, where, script, tty=tty)
        with contextlib.closing(channel), _make_raw(tty):
            # a link that breaks at a message of paramiko's own: the exit code is missing then
            with contextlib.suppress(EOFError, paramiko.SSHException):
                _Pump(channel, resized, tty=tty).run()
            code = channel.recv_exit_status()
    if code < 0 and not link.transport.is_active():
        raise link.explain_loss(where)
    # what a signal ended has no exit status
    return code if code >= 0 else 128 + signal.SIGTERM


def _start(link: Link, where: str, script: str, *, tty: bool) -> paramiko.Channel:
    try:
        channel = link.transport.open_session(window_size=WINDOW, timeout=link.patience)
        if tty:
            columns, lines = _measure_terminal()
            channel.get_pty(os.environ.get("TERM", "dumb"), columns, lines)
        channel.exec_command(build_remote_line(script))
    except (paramiko.SSHException, EOFError, OSError) as error:
        if not link.transport.is_active():
            raise link.explain_loss(where) from None
        problem = Diagnostic("J404", f"{where}: the server starts no second session: {error}")
        raise Unreachable(problem) from None
    return channel


def _measure_terminal() -> tuple[int, int]:
    """Columns and lines as they are, whatever COLUMNS and LINES say: those do not follow it."""
    return os.get_terminal_size(_OUTPUT)


@contextlib.contextmanager
def _make_raw(wanted: bool) -> Iterator[None]:
    """A block in which the terminal hands on every key: Ctrl-C is the remote program's."""
    if not wanted:
        yield
        return
    descriptor = _INPUT
    before = termios.tcgetattr(descriptor)
    try:
        terminals.setraw(descriptor)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _watch_size() -> Iterator[int]:
    """A block with a descriptor to read from that gets a byte when the window changes its size."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    # paramiko's locks may be held where a signal arrives: the loop does the work
    def note(*_: object) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(writer, b"!")

    before = signal.signal(signal.SIGWINCH, note)
    try:
        yield reader
    finally:
        signal.signal(signal.SIGWINCH, before)
        os.close(reader)
        os.close(writer)


class _Pump:
    """Carries bytes between our standard streams and a channel until the channel has ended."""

    def __init__(self, channel: paramiko.Channel, resized: int, *, tty: bool) -> None:
        self._channel = channel
        self._resized = resized
        self._tty = tty
        self._open = True
        """Whether our standard input may bring more."""
        self._pending = b""

    def run(self) -> None:
        """Carry all bytes of both sides."""
        while not self._is_over():
            ready = self._wait()
            if self._resized in ready:
                os.read(self._resized, _PIECE)
                self._resize()
            if _INPUT in ready:
                self._read_input()
            self._send()
            self._receive()

    def _wait(self) -> list[int | paramiko.Channel]:
        # after its end a channel counts as ready, though its exit code may still be on the way
        ended = self._channel.eof_received
        sources: list[int | paramiko.Channel] = [self._resized]
        if not ended:
            sources.append(self._channel)
        if self._open and not self._pending:
            sources.append(_INPUT)
        ready, _, _ = select.select(sources, [], [], _SLICE if ended or self._pending else None)
        return ready

    def _is_over(self) -> bool:
        channel = self._channel
        ended = channel.closed or (channel.eof_received and channel.exit_status_ready())
        return bool(ended) and not (channel.recv_ready() or channel.recv_stderr_ready())

    def _resize(self) -> None:
        if self._tty:
            columns, lines = _measure_terminal()
            self._channel.resize_pty(columns, lines)

    def _read_input(self) -> None:
        self._pending = os.read(_INPUT, _PIECE)
        if not self._pending:
            self._open = False
            self._channel.shutdown_write()

    def _send(self) -> None:
        if self._channel.closed:
            self._pending = b""
        while self._pending and self._channel.send_ready():
            try:
                sent = self._channel.send(self._pending)
            except OSError:  # it is closed: nobody reads any more
                sent = len(self._pending)
            self._pending = self._pending[sent:]

    def _receive(self) -> None:
        if self._channel.recv_ready():
            _write(_OUTPUT, self._channel.recv(_PIECE))
        if self._channel.recv_stderr_ready():
            _write(_ERRORS, self._channel.recv_stderr(_PIECE))


def _write(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
