"""How far a submit has come, as values that a screen can draw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stage:
    """One moment of one stage. ``done`` and ``total`` are bytes where the stage moves any."""

    number: int
    of: int
    name: str
    """connect, upload or sbatch."""
    text: str
    done: int = 0
    total: int = 0
    ended: bool = False


STAGES = 3
"""connect, upload, sbatch."""

Progress = Callable[[Stage], None]


def silent(_: Stage) -> None:
    """Progress that nobody watches."""
