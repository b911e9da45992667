"""Scripts that have the terminal, or the standard streams, of the person who started jobgen."""

from __future__ import annotations

import signal
import subprocess
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path


def build_remote_line(script: str) -> str:
    """A command line for any login shell that runs this POSIX script.

    Standard input stays free for the script. Only letters, digits, ``+``, ``/`` and ``=`` of it
    stand in the line, so that neither csh nor fish can misread it.
    """
    text = b64encode(script.encode("utf-8", "surrogateescape")).decode()
    return f"""exec /bin/sh -c 'eval "$(echo {text} | base64 -d)"'"""


def run_program(words: Sequence[str], *, patient: bool) -> int:
    """The exit code of a program that has our standard streams.

    A ``patient`` call outlives Ctrl-C, which the program gets as well and decides about; else
    KeyboardInterrupt ends both.
    """
    before = signal.getsignal(signal.SIGINT)
    if patient:
        # before the program starts, which may be interrupted at once; a handler, not SIG_IGN, which
        # the program would inherit
        signal.signal(signal.SIGINT, lambda *_: None)
    try:
        with subprocess.Popen(list(words), cwd=Path.home()) as child:
            try:
                code = child.wait()
            except BaseException:
                child.terminate()
                raise
    finally:
        if patient:
            signal.signal(signal.SIGINT, before)
    return code if code >= 0 else 128 - code
