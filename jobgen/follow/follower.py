"""Chunks of many log files in, lines worth showing out. No clock and no files: both come in."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from jobgen.follow.collapse import Lines, Window, collapse
from jobgen.follow.launcher_noise import NoiseFilter
from jobgen.follow.line_splitter import Assembler, keep_last_lines
from jobgen.follow.sanitize import clean_lines
from jobgen.follow.source import LogSource
from jobgen.follow.time_order import TimeOrder, keep_last
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
    noise: NoiseFilter = field(default_factory=NoiseFilter)
    matches: int = 0
    """Folded lines in which the pattern was found."""

    def release(self) -> bytes:
        """What was kept back of a traceback that has not ended."""
        held = "".join(f"{text}\n" for text in self.noise.release())
        return held.encode("utf-8", "surrogateescape")

    def list_notes(self, *, matching: bool) -> list[Lines]:
        """How much was folded; of what is searched, only the lines that would have been found."""
        count = self.matches if matching else self.noise.count
        kind = "matching line" if matching else "line"
        lines = f"1 {kind}" if count == 1 else f"{count} {kind}s"
        note = f"[{lines} of launcher output hidden; -v shows them]\n"
        return [Lines(self.source, note.encode())] if count else []


def shorten(lines: bytes, source: LogSource, folder: str) -> bytes:
    """Lines of stderr without their own rank, which PyTorch puts before each line of a traceback,
    and with paths below ``folder``: so those of several ranks are equal.

    >>> shorten(b'[rank3]:   File "/run/src/train.py"', LogSource("n1", 3, "err"), "/run/src/")
    b'  File "train.py"'
    """
    if folder:
        lines = lines.replace(folder.encode(), b"")
    if source.rank is None or b"[rank" not in lines:
        return lines
    return re.sub(rb"(?m)^\[rank%d\]: ?" % source.rank, b"", lines)


class Follower:
    """The state between chunks: unfinished lines, and lines waiting for their equals.

    ``now`` is any clock in seconds that runs forward. Call ``tick`` at least as often as
    ``view.window`` while nothing arrives, ``settle`` once all that was there at the start has been
    fed, ``close`` at the end.
    """

    def __init__(self, view: View, *, ordered: bool = False, after: float | None = None) -> None:
        """With ``ordered``, ``arrange`` gives what was fed in the order of time, until ``settle``;
        ``after`` leaves out of that what was written before."""
        self._view = view
        self._after = after
        self._order = self._begin_order() if ordered else None
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

    @property
    def due(self) -> float | None:
        """When ``tick`` has lines to show; None where none wait."""
        return self._window.due if self._window else None

    def tick(self, now: float) -> list[Lines]:
        """The lines whose wait is over."""
        return self._window.take_due(now) if self._window else []

    def arrange(self, now: float) -> list[Lines]:
        """What was fed since the last call, in the order of time."""
        return self._order.take_all(now) if self._order and self._settled else []

    def take_bars(self, now: float) -> list[Lines]:
        """The progress bar that moved, of the first source with one; once in ``BAR`` seconds."""
        if not self._settled or now - self._bar_shown < BAR:
            return []
        for file in self._in_order():
            bar = file.assembler.bar
            text = self._choose(clean_lines(bar + b"\n", colour=self._view.colour)) if bar else b""
            if text.strip() and text != file.bar:
                file.bar, self._bar_shown = text, now
                return [Lines(file.source, text, bar=True)]
        return []

    def settle(self, now: float) -> list[Lines]:
        """The last lines of what was there already; from now on, every line is shown."""
        shown = [] if self._settled else self._show_last(now)
        self._settled = True
        shown += self.arrange(now)
        self._order = None
        return shown + self.tick(now)

    def _show_last(self, now: float) -> list[Lines]:
        count = self._view.lines or 0
        if self._view.raw:
            return [Lines(f.source, f.backlog) for f in self._in_order() if f.backlog]
        order = self._order or self._begin_order()
        for file in self._in_order():
            order.add(file.source, file.backlog)
            file.backlog = b""
        return keep_last(order.take_all(now), count)

    def _begin_order(self) -> TimeOrder:
        window = self._view.window if self._view.gathers else 0.0
        return TimeOrder(window, self._after, timed=self._view.timestamps)

    def close(self, now: float) -> list[Lines]:
        """Everything that is left, unfinished lines too."""
        shown: list[Lines] = []
        for file in self._in_order():
            shown += self._take(file, file.assembler.flush(), now)
            held = shorten(file.release(), file.source, self._view.folder)
            found = self._choose(held)
            file.matches -= found.count(b"\n")
            shown += self._keep(file, found, now)
        shown += self.settle(now)
        shown += self._window.flush() if self._window else []
        matching = self._grep is not None
        notes = [note for file in self._in_order() for note in file.list_notes(matching=matching)]
        return shown + list(collapse((note.source, note.data) for note in notes))

    def list_sources(self) -> tuple[LogSource, ...]:
        """Every source seen so far that is shown, in order."""
        return tuple(file.source for file in self._in_order())

    def _file(self, path: str) -> _File | None:
        if path not in self._files:
            source = self._view.identify(path)
            assembler = Assembler(raw=self._view.raw)
            # whoever asks for a rank wants to see where it waited
            noise = NoiseFilter(
                peers=self._view.ranks is None, batch=source is not None and source.stream == "job"
            )
            self._files[path] = _File(source, assembler, noise=noise) if source else None
        return self._files[path]

    def _in_order(self) -> list[_File]:
        return sorted((f for f in self._files.values() if f), key=lambda f: f.source.order)

    def _take(self, file: _File, lines: bytes, now: float) -> list[Lines]:
        if not lines:
            return self.tick(now)
        shown = self._keep(file, self._shape(file, lines), now)
        return shown or self.tick(now)

    def _keep(self, file: _File, lines: bytes, now: float) -> list[Lines]:
        """Lines that are ready: shown, or kept for their place in time or among the last."""
        if not lines:
            return []
        if not self._settled:
            file.backlog = keep_last_lines(file.backlog + lines, self._view.lines or 0)
            return []
        if self._order:
            self._order.add(file.source, lines)
            return []
        if self._window is None:
            return [Lines(file.source, lines)]
        return self._window.add(file.source, lines, now)

    def _shape(self, file: _File, lines: bytes) -> bytes:
        """The lines that are shown, without what a terminal would obey."""
        if not self._view.raw:
            lines = clean_lines(lines, colour=self._view.colour)
        if not self._view.fold or file.source.stream == "out":
            return self._choose(lines)
        shown = self._choose(shorten(file.noise.feed(lines), file.source, self._view.folder))
        if self._grep:
            every = self._choose(shorten(lines, file.source, self._view.folder))
            file.matches += every.count(b"\n") - shown.count(b"\n")
        return shown

    def _choose(self, lines: bytes) -> bytes:
        if self._grep is None:
            return lines
        found = self._grep.search
        texts = lines.decode("utf-8", "surrogateescape").split("\n")
        kept = [t + "\n" for t in texts[:-1] if found(t)]
        if texts[-1] and found(texts[-1]):
            kept.append(texts[-1])
        return "".join(kept).encode("utf-8", "surrogateescape")
