"""The output of many tasks, carried to srun's own, whole lines at a time."""

from __future__ import annotations

import os

_READ = 65536
_LONGEST = 65536
"""Bytes of a line that are held back for its end; a longer one is handed on in parts."""


class _Pipe:
    def __init__(self, target: int, rank: int) -> None:
        self.target = target
        self.rank = rank
        self.pending = bytearray()


class Relay:
    """Pipes of tasks, by descriptor."""

    def __init__(self, *, label: bool, width: int) -> None:
        self._label = label
        self._width = width
        self._pipes: dict[int, _Pipe] = {}

    @property
    def open(self) -> list[int]:
        """Descriptors to wait for."""
        return list(self._pipes)

    def pipe(self, target: int, rank: int) -> int:
        """The writing end of a new pipe that leads to descriptor ``target``."""
        read, write = os.pipe()
        os.set_blocking(read, False)
        self._pipes[read] = _Pipe(target, rank)
        return write

    def carry(self, ready: list[int]) -> None:
        """Take what these hold, and hand on the lines that are whole."""
        for fd in ready:
            self._take(fd)

    def finish(self) -> None:
        """Hand on all that is left. A stranger may still hold a pipe: nobody waits for it."""
        for fd in self.open:
            while fd in self._pipes and self._take(fd):
                pass
            if fd in self._pipes:
                self._close(fd)

    def tell(self, text: str) -> None:
        """A line of our own among theirs."""
        _put(2, text.encode())

    def _take(self, fd: int) -> bool:
        pipe = self._pipes[fd]
        try:
            data = os.read(fd, _READ)
        except BlockingIOError:
            return False
        if not data:
            self._close(fd)
            return False
        pipe.pending += data
        whole = pipe.pending.rfind(b"\n") + 1
        if not whole and len(pipe.pending) > _LONGEST:
            whole = len(pipe.pending)
        if whole:
            self._hand_on(pipe, bytes(pipe.pending[:whole]))
            del pipe.pending[:whole]
        return True

    def _close(self, fd: int) -> None:
        pipe = self._pipes.pop(fd)
        os.close(fd)
        if pipe.pending:
            self._hand_on(pipe, bytes(pipe.pending))

    def _hand_on(self, pipe: _Pipe, text: bytes) -> None:
        if self._label:
            mark = f"{pipe.rank:>{self._width}}: ".encode()
            text = mark + text[:-1].replace(b"\n", b"\n" + mark) + text[-1:]
        _put(pipe.target, text)


def _put(target: int, text: bytes) -> None:
    """All of it, in as few writes as it takes; a reader that is gone is no reason to stop."""
    rest = memoryview(text)
    while rest:
        try:
            rest = rest[os.write(target, rest) :]
        except OSError:
            return
