"""Waiting in tests: for what comes, and never for how soon it comes."""

from __future__ import annotations

import time
from collections.abc import Callable

HANG = 600.0
"""Seconds after which a test takes what it waits for as hung.

It guards against tests without an end, and is far longer than anything takes on a machine whose
load is ten times its cores: no test passes or fails by how fast a machine is.
"""


def until(
    true: Callable[[], object], what: str | Callable[[], str] = "it", *, pause: float = 0.05
) -> None:
    """Wait until something is true; an error that names it where it hangs."""
    end = time.monotonic() + HANG
    while not true():
        if time.monotonic() > end:
            text = what if isinstance(what, str) else what()
            raise TimeoutError(f"waited {HANG:g} s in vain for {text}")
        time.sleep(pause)
