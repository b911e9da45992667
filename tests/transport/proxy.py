"""A TCP proxy that delays, stalls or cuts a connection at an exact byte."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from dataclasses import dataclass, field
from typing import Literal, Self

_READ = 1 << 18
_NEVER = 1 << 62


@dataclass
class Way:
    """One direction. After ``after`` bytes it is cut (a reset), or nothing more arrives."""

    after: int = _NEVER
    then: Literal["cut", "stall"] = "cut"
    passed: int = 0

    def take(self, data: bytes) -> tuple[bytes, bool]:
        """What of the data still passes, and whether the fault strikes behind it."""
        room = self.after - self.passed
        struck = len(data) >= room
        data = data[:room] if struck else data
        self.passed += len(data)
        return data, struck


@dataclass
class Proxy:
    """Listens on ``port`` of loopback and forwards to ``target``. ``delay`` is one way, seconds."""

    target: int
    delay: float = 0.0
    up: Way = field(default_factory=Way)
    down: Way = field(default_factory=Way)
    host: str = "127.0.0.1"
    turns: int = 0
    """How often bytes went up after bytes had come down: round trips of who waits for answers."""

    def __post_init__(self) -> None:
        self._last: Way = self.down
        self._open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self._thread.start()
        ready.wait()

    def _run(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port: int = server.sockets[0].getsockname()[1]
        ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.01))
        self._loop.close()

    async def _serve(self, down: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        try:
            up, forth = await asyncio.open_connection(self.host, self.target, limit=_READ)
        except OSError:
            return self._reset(back)
        ends = (back, forth)
        self._last = self.up  # the greetings of the two sides cross: neither waits
        self._open |= set(ends)
        for writer in ends:
            plug = writer.get_extra_info("socket")
            plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(down, forth, self.up, ends))
                group.create_task(self._pump(up, back, self.down, ends))
        except asyncio.CancelledError:
            return None  # asyncio reports a cancelled handler as an error
        finally:
            self._reset(*ends)

    async def _pump(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        way: Way,
        ends: tuple[asyncio.StreamWriter, ...],
    ) -> None:
        line: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._write(line, sink, way, ends))
            data = b"-"
            while data:
                try:
                    data = await source.read(_READ)
                except OSError:
                    data = b""
                if data and way is self.up and self._last is self.down:
                    self.turns += 1
                if data:
                    self._last = way
                line.put_nowait((self._loop.time() + self.delay, data))

    async def _write(
        self,
        line: asyncio.Queue[tuple[float, bytes]],
        sink: asyncio.StreamWriter,
        way: Way,
        ends: tuple[asyncio.StreamWriter, ...],
    ) -> None:
        while True:
            due, data = await line.get()
            if due > self._loop.time():
                await asyncio.sleep(due - self._loop.time())
            passing, struck = way.take(data)
            try:
                sink.write(passing)
                await sink.drain()
            except OSError:
                return self._reset(*ends)
            if struck and way.then == "stall":
                await asyncio.Event().wait()
            if struck or not data:
                return self._reset(*ends) if struck else sink.close()

    def _reset(self, *writers: asyncio.StreamWriter) -> None:
        for writer in writers:
            plug = writer.get_extra_info("socket")
            if plug and plug.fileno() >= 0:
                # linger 0: a reset, as when a machine dies, and not a polite end
                plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
            self._open.discard(writer)

    def cut(self) -> None:
        """Reset all connections now."""
        self._loop.call_soon_threadsafe(lambda: self._reset(*self._open))

    def close(self) -> None:
        """Stop listening, and end what is open."""
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
