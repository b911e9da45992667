"""A Channel over the pipes of a child process."""

from __future__ import annotations

import contextlib
import fcntl
import os
import selectors
import signal
import subprocess
from collections.abc import Mapping, Sequence

from jobgen.transport.protocol import ERR, OUT, Received

_PIPE_BYTES = 1 << 20
_LAST_WORDS = 4000


class PipeChannel:
    """A child process, its standard streams as a Channel."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        own_session: bool,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._child = subprocess.Popen(
            list(words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            bufsize=0,
            start_new_session=own_session,
            env=None if env is None else dict(env),
        )
        assert self._child.stdin is not None  # noqa: S101
        assert self._child.stdout is not None  # noqa: S101
        assert self._child.stderr is not None  # noqa: S101
        self._own_session = own_session
        self._stdin = self._child.stdin
        self._streams = {OUT: self._child.stdout, ERR: self._child.stderr}
        self._last_words = b""
        self._spoke_out = False
        self._selector = selectors.DefaultSelector()
        for pipe in (self._stdin, *self._streams.values()):
            os.set_blocking(pipe.fileno(), False)
            _widen(pipe.fileno())
        for stream, pipe in self._streams.items():
            self._selector.register(pipe, selectors.EVENT_READ, stream)
        self._sending = False

    def exchange(
        self, data: memoryview, awaited: int, timeout: float
    ) -> tuple[int, list[Received]]:
        """Send and receive what can be without waiting longer than ``timeout``."""
        del awaited  # select waits for both
        self._watch_stdin(bool(data))
        taken, received = 0, []
        for key, _ in self._selector.select(timeout):
            if key.data is None:
                taken = self._send(data)
            else:
                received.append((key.data, self._receive(key.data)))
        return taken, received

    def _watch_stdin(self, wanted: bool) -> None:
        if wanted and not self._sending:
            self._selector.register(self._stdin, selectors.EVENT_WRITE, None)
        elif self._sending and not wanted:
            self._selector.unregister(self._stdin)
        self._sending = wanted

    def _send(self, data: memoryview) -> int:
        try:
            return os.write(self._stdin.fileno(), data)
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            # the child is gone: its last words and the end of its streams are still to be read
            return len(data)

    def _receive(self, stream: int) -> bytes:
        piece = os.read(self._streams[stream].fileno(), _PIPE_BYTES)
        self._spoke_out = self._spoke_out or not piece
        if stream == ERR:
            self._last_words = (self._last_words + piece[-_LAST_WORDS:])[-_LAST_WORDS:]
        return piece

    def read_exit(self) -> tuple[int | None, str]:
        """The exit code of the child (None: it lives) and the end of its standard error."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            # it has closed its output, so it is about to end: its code says why
            self._child.wait(1.0 if self._spoke_out else 0.0)
        if not self._streams[ERR].closed:
            with contextlib.suppress(BlockingIOError):
                while self._receive(ERR):
                    pass
        return self._child.returncode, self._last_words.decode("utf-8", "replace")

    def describe_end(self) -> str:
        """Nothing: who owns the child knows how to read its last words."""
        return ""

    def abort(self) -> None:
        """Kill the child, with its whole session where it has one of its own."""
        if self._child.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if self._own_session:
                    os.killpg(self._child.pid, signal.SIGKILL)
                else:
                    self._child.kill()

    def close(self) -> None:
        """Close its input, which ends it; kill it where it does not end."""
        if not self._stdin.closed:
            self._selector.close()
            self._stdin.close()
            self._streams[OUT].close()
            self._streams[ERR].close()
        try:
            self._child.wait(1.0)
        except subprocess.TimeoutExpired:
            self.abort()
            self._child.wait()


def _widen(descriptor: int) -> None:
    # 64 KiB is the default; a wider pipe halves the switches between the two processes
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
