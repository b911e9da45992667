"""A web server that keeps what is posted to it, for tests of webhooks."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Receiver:
    """The messages, in the order in which they came, and the path of each."""

    def __init__(self, address: str, status: int) -> None:
        self.messages: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.types: list[str | None] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.paths.append(self.path)
                outer.types.append(self.headers["Content-Type"])
                outer.messages.append(json.loads(body))
                self.send_response(status)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Nothing is printed."""

        self.server = ThreadingHTTPServer((address, 0), Handler)

    @property
    def port(self) -> int:
        return int(self.server.server_address[1])

    def events(self) -> list[str]:
        return [message["event"] for message in self.messages]


@contextmanager
def receive(address: str = "127.0.0.1", status: int = 200) -> Iterator[Receiver]:
    """A server at a free port, until the end of the block."""
    receiver = Receiver(address, status)
    thread = threading.Thread(target=receiver.server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield receiver
    finally:
        receiver.server.shutdown()
        thread.join()
        receiver.server.server_close()
