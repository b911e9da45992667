"""A port of this machine whose connections go on to a port over there."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from jobgen.errors import Unreachable
from jobgen.transport.streams import SocketStream

if TYPE_CHECKING:
    from jobgen.transport import ByteStream

ADDRESS = "127.0.0.1"
"""Never another one: what a node serves is not for the network of this machine."""
_PIECE = 1 << 16


class Forwarder:
    """Listens from the start, accepts in a thread; each connection has two more threads."""

    def __init__(
        self, wanted: int, dial: Callable[[], ByteStream], report: Callable[[str], None]
    ) -> None:
        """Listen on the ``wanted`` port, else on a free one. ``dial`` makes a connection over
        there or raises ConnectionError or Unreachable; ``report`` gets why one failed."""
        self._dial = dial
        self._report = report
        self._server = _listen(wanted)
        self.address, self.port = self._server.getsockname()
        threading.Thread(target=self._accept, name="jobgen-forward", daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                plug, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(SocketStream(plug),), daemon=True).start()

    def _carry(self, near: ByteStream) -> None:
        """One connection, from its first byte to its last."""
        try:
            far = self._dial()
        except (ConnectionError, Unreachable) as error:
            self._report(str(error))
            near.close()
            return
        back = threading.Thread(target=self._bring_back, args=(far, near), daemon=True)
        back.start()
        _copy(near, far)
        back.join()
        far.close()
        near.close()

    def _bring_back(self, far: ByteStream, near: ByteStream) -> None:
        _copy(far, near)
        if failure := far.describe_failure():
            self._report(failure)
            near.close()

    def close(self) -> None:
        """Accept no more; connections that are open end with their transport."""
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _listen(wanted: int) -> socket.socket:
    try:
        return socket.create_server((ADDRESS, wanted))
    except OSError:  # taken, or below 1024 and not ours
        return socket.create_server((ADDRESS, 0))


def _copy(source: ByteStream, target: ByteStream) -> None:
    """Carry bytes until the source ends or the target is gone."""
    with contextlib.suppress(OSError, EOFError):
        while data := source.recv(_PIECE):
            target.sendall(data)
    target.shutdown_write()
