"""How far a submit has come: a bar where a person looks, else a line for every tenth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jobgen.cli.layout import clip, format_size, format_span, measure
from jobgen.cli.output import Output, defuse

if TYPE_CHECKING:
    from jobgen.app.context import SubmitStage

REDRAW = 0.1
"""Seconds between two drawings of the bar."""
BAR = 10
"""Signs in the bar."""


@dataclass
class ProgressBar:
    """Called with every stage; writes to standard error."""

    output: Output
    clock: Callable[[], float]
    _name: str = field(default="", init=False)
    _began: float = field(default=0.0, init=False)
    _drawn: float = field(default=0.0, init=False)
    _tenth: int = field(default=-1, init=False)
    _open: bool = field(default=False, init=False)

    def __call__(self, stage: SubmitStage) -> None:
        """Show this moment, if it is worth showing."""
        now = self.clock()
        if stage.name != self._name:
            self._name, self._began, self._tenth = stage.name, now, -1
        if self.output.live:
            self._draw(stage, now)
        else:
            self._tell(stage, now)

    def _draw(self, stage: SubmitStage, now: float) -> None:
        if not stage.ended and self._open and now - self._drawn < REDRAW:
            return
        self._drawn = now
        line = clip(self._line(stage, now), self.output.talk.width - 1)
        blanks = " " * (self.output.talk.width - 1 - measure(line))
        self._open = not stage.ended
        self.output.overwrite(f"{line}{blanks}", last=stage.ended)

    def _tell(self, stage: SubmitStage, now: float) -> None:
        tenth = 10 * stage.done // stage.total if stage.total else -1
        if stage.ended or (0 < tenth != self._tenth and stage.done < stage.total):
            self._tenth = tenth
            self.output.say(self._line(stage, now))
        elif stage.text and not stage.total and stage.name in ("sbatch", "queued"):
            self.output.say(self._line(stage, now), level=0)

    def _line(self, stage: SubmitStage, now: float) -> str:
        head = f"[{stage.number}/{stage.of}] {stage.name:8}"
        seconds = now - self._began
        if stage.total:
            return f"{head}  {_moved(stage, seconds)}"
        took = f"  {seconds:.1f} s" if stage.ended and seconds >= 0.05 else ""
        return f"{head}  {defuse(stage.text)}{took}"


def _moved(stage: SubmitStage, seconds: float) -> str:
    """``tar of 2.1 MiB  [##########] 100 %  3.1 MiB/s, 4s left``."""
    part = min(stage.done / stage.total, 1.0)
    full = int(part * BAR)
    bar = "#" * full + "-" * (BAR - full)
    line = f"tar of {format_size(stage.total)}  [{bar}] {part * 100:3.0f} %"
    if seconds < 0.5 or not stage.done:
        return line
    rate = stage.done / seconds
    left = (
        ""
        if stage.ended or part >= 1
        else f", {format_span((stage.total - stage.done) / rate)} left"
    )
    return f"{line}  {format_size(rate)}/s{left}"
