"""Waiting in tests: for what comes, and never for how soon it comes."""

from __future__ import annotations

import time
from collections.abc import Callable

HANG = 600.0
"""Seconds after which a test takes what it waits for as hung.

It guards against tests without an end, and is far longer than anything takes on a machine whose
load is ten times its cores: no test passes or fails by how fast a machine is.
"""

LEISURE = 4
"""Pauses between two looks, in times of what a look took: most of a cluster's tests is waiting, and
to look without a rest takes the cores from what is waited for."""


def until(
    true: Callable[[], object], what: str | Callable[[], str] = "it", *, pause: float = 0.05
) -> None:
    """Wait until something is true; an error that names it where it hangs."""
    began = looked = time.monotonic()
    while not true():
        now = time.monotonic()
        if now > began + HANG:
            text = what if isinstance(what, str) else what()
            raise TimeoutError(f"waited {HANG:g} s in vain for {text}")
        time.sleep(max(pause, min(1.0, LEISURE * (now - looked))))
        looked = time.monotonic()
