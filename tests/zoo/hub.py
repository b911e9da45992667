"""A web server that answers every request as the Hugging Face hub refuses one: ``hub.py KIND``.

The client's code and messages are the real ones; there is no internet on the test cluster.
"""

from __future__ import annotations

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = 8080
ANSWERS = {
    "gated": (
        403,
        "GatedRepo",
        "Access to model meta-llama/Llama-3.1-8B is restricted. Ask for access on its page.",
    ),
    "token": (401, "", "Invalid credentials in Authorization header"),
    "busy": (429, "", "We had to rate limit your IP. To continue using our service, log in."),
}


class Hub(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        code, name, message = ANSWERS[sys.argv[1]]
        self.send_response(code)
        if name:
            self.send_header("X-Error-Code", name)
        self.send_header("X-Error-Message", message)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        self.do_HEAD()


if __name__ == "__main__":
    ThreadingHTTPServer(("", PORT), Hub).serve_forever()
