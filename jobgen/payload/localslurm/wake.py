"""Sleeping until a signal comes, a descriptor has something to say, or time is up."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Iterable


class Wake:
    """Signals that wake, by number, and the sleep that they end."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in numbers:
            signal.signal(number, lambda *_: None)

    def wait(self, seconds: float, others: Iterable[int] = ()) -> tuple[list[int], list[int]]:
        """Signals that came, and those of the other descriptors that can be read."""
        watch = select.poll()
        for fd in (self._read, *others):
            watch.register(fd, select.POLLIN)
        ready = [fd for fd, _ in watch.poll(max(0.0, seconds) * 1000)]
        came: list[int] = []
        if self._read in ready:
            ready.remove(self._read)
            with contextlib.suppress(BlockingIOError):
                came = list(os.read(self._read, 4096))
        return came, ready
