"""Chunks of many log files in, lines worth showing out. No clock and no files: both come in."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from jobgen.follow.collapse import Lines, Window
from jobgen.follow.line_splitter import Assembler, keep_last_lines
from jobgen.follow.sanitize import clean_lines
from jobgen.follow.source import LogSource, parse_source
from jobgen.follow.view import View

BAR = 1.0
"""Seconds between two states of a progress bar that are shown."""


@dataclass(slots=True)
class _File:
    source: LogSource
    assembler: Assembler
    backlog: bytes = b""
    bar: bytes = b""
    """The progress bar that was shown last."""


class Follower:
    """The state between chunks: unfinished lines, and lines waiting for their equals.

    ``now`` is any clock in seconds that runs forward. Call ``tick`` at least as often as
    ``view.window`` while nothing arrives, ``settle`` once all that was there at the start has been
    fed, ``close`` at the end.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self._files: dict[str, _File | None] = {}
        self._window = Window(view.window) if view.gathers else None
        self._grep = re.compile(view.grep) if view.grep else None
        self._settled = view.lines is None
        self._bar_shown = -math.inf

    def feed(self, path: str, data: bytes, now: float) -> list[Lines]:
        """The next bytes of this file; gives back the lines to show now."""
        file = self._file(path)
        if file is None:
            return self.tick(now)
        return self._take(file, file.assembler.feed(data), now)

    def tick(self, now: float) -> list[Lines]:
        """The lines whose wait is over."""
        return self._window.take_due(now) if self._window else []

    def take_bars(self, now: float) -> list[Lines]:
        """The progress bar that moved, of the first source with one; once in ``BAR`` seconds."""
        if not self._settled or now - self._bar_shown < BAR:
            return []
        for file in self._in_order():
            text = self._shaped(file.assembler.bar + b"\n") if file.assembler.bar else b""
            if text.strip() and text != file.bar:
                file.bar, self._bar_shown = text, now
                return [Lines(file.source, text, bar=True)]
        return []

    def settle(self, now: float) -> list[Lines]:
        """The last lines of what was there already; from now on, every line is shown."""
        if self._settled:
            return self.tick(now)
        self._settled = True
        shown: list[Lines] = []
        for file in self._in_order():
            backlog, file.backlog = file.backlog, b""
            shown += self._show(file.source, backlog, now)
        return shown

    def close(self, now: float) -> list[Lines]:
        """Everything that is left, unfinished lines too."""
        shown: list[Lines] = []
        for file in self._in_order():
            shown += self._take(file, file.assembler.flush(), now)
        shown += self.settle(now)
        return shown + (self._window.flush() if self._window else [])

    def list_sources(self) -> tuple[LogSource, ...]:
        """Every source seen so far that is shown, in order."""
        return tuple(file.source for file in self._in_order())

    def _file(self, path: str) -> _File | None:
        if path not in self._files:
            source = parse_source(path)
            wanted = source is not None and self._view.shows(source)
            self._files[path] = (
                _File(source, Assembler(raw=self._view.raw)) if source and wanted else None
            )
        return self._files[path]

    def _in_order(self) -> list[_File]:
        return sorted((f for f in self._files.values() if f), key=lambda f: f.source.order)

    def _take(self, file: _File, lines: bytes, now: float) -> list[Lines]:
        if not lines:
            return self.tick(now)
        lines = self._shaped(lines)
        if self._settled:
            return self._show(file.source, lines, now)
        file.backlog = keep_last_lines(file.backlog + lines, self._view.lines or 0)
        return []

    def _show(self, source: LogSource, lines: bytes, now: float) -> list[Lines]:
        if not lines:
            return self.tick(now)
        if self._window is None:
            return [Lines(source, lines)]
        return self._window.add(source, lines, now)

    def _shaped(self, lines: bytes) -> bytes:
        if not self._view.raw:
            lines = clean_lines(lines, colour=self._view.colour)
        if self._grep is None:
            return lines
        found = self._grep.search
        texts = lines.decode("utf-8", "surrogateescape").split("\n")
        kept = [t + "\n" for t in texts[:-1] if found(t)]
        if texts[-1] and found(texts[-1]):
            kept.append(texts[-1])
        return "".join(kept).encode("utf-8", "surrogateescape")
