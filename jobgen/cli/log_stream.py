"""Lines of many ranks on one terminal, or as JSON Lines."""

from __future__ import annotations

import math
import re
import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from jobgen.cli.call import Call
from jobgen.cli.layout import clip, measure, pad
from jobgen.cli.output import defuse
from jobgen.follow import Lines, LogSource
from jobgen.follow.timestamps import format_clock
from jobgen.model.array import fold_indexes
from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jobgen.app.logs import StreamEvent

_COLOURS = ("36", "32", "33", "35", "34", "96", "92", "93", "95", "94")
_WIDEST_NODE = 20
_CLEAR = "\r\x1b[K"
_SGR = re.compile("\x1b\\[[0-9;:]*m")
BAR_LINES = 1.0
"""Seconds between two lines for a progress bar where nothing can be drawn over."""
_MARKS = {"out": "|", "err": "!", "job": "|"}


class PrefixForm(NamedTuple):
    """What the prefix of each line names, and how wide it is."""

    nodes: str = ""
    """As Slurm folds them."""
    ranks: int = 0
    array: bool = False
    """Whether it names the element."""
    parts: tuple[str, ...] = ()
    """The steps or groups, if several with ranks of their own are shown: it names them."""


_PLAIN_FORM = PrefixForm()


class Stream:
    """Writes blocks of lines with a prefix of stable width, and events beside them."""

    def __init__(
        self,
        call: Call,
        *,
        prefixed: bool = True,
        timed: bool = False,
        form: PrefixForm = _PLAIN_FORM,
    ) -> None:
        """``timed`` puts the time before each line."""
        self._call = call
        self._prefixed = prefixed
        self._timed = timed
        self._ink = call.output.ink
        self._nodes: dict[str, str] = {}
        self._ranks: set[tuple[str, int]] = set()
        """Each rank with its step or group."""
        self._parts = frozenset(form.parts)
        self._array = form.array
        widest = max(map(len, re.sub(r"\[\d*-?(\d*).*?\]", r"\1", form.nodes).split(",")))
        room = max((len(part) + 1 for part in form.parts), default=0)
        self._widths = (max(3, min(widest, _WIDEST_NODE)), room + len(f"r{max(form.ranks - 1, 0)}"))
        self._prefixes: dict[tuple[LogSource, ...], bytes] = {}
        self._bar_drawn = False
        self._bar_written = -math.inf

    def show(self, items: Iterable[Lines | StreamEvent]) -> None:
        """Everything that comes, as it comes."""
        for item in items:
            if isinstance(item, Lines) and item.bar:
                self._bar(item)
                continue
            self._clear_bar()
            if not isinstance(item, Lines):
                self._event(item)
            elif self._call.flags.json:
                self._json(item)
            else:
                self._write(item)
        self._clear_bar()

    def _bar(self, lines: Lines) -> None:
        """A progress bar: over the last one on a terminal, else a line now and then."""
        if self._call.output.seen and not self._call.flags.json:
            prefix = self._prefix((lines.source,)).decode() if self._prefixed else ""
            room = self._ink.width - measure(_plain(prefix)) - 1
            text = clip(_plain(lines.list_texts()[0]), room)
            sys.stdout.write(f"{_CLEAR}{prefix}{text}")
            sys.stdout.flush()
            self._bar_drawn = True
        elif time.monotonic() - self._bar_written >= BAR_LINES:
            self._bar_written = time.monotonic()
            (self._json if self._call.flags.json else self._write)(lines)

    def _clear_bar(self) -> None:
        if self._bar_drawn:
            self._bar_drawn = False
            sys.stdout.write(_CLEAR)
            sys.stdout.flush()

    def _write(self, lines: Lines) -> None:
        out = sys.stdout.buffer
        data = memoryview(lines.data)
        if self._prefixed or self._timed:
            prefix = self._prefix((lines.source, *lines.also)) if self._prefixed else b""
            if self._timed:
                prefix = f"{format_clock(lines.time)} ".encode() + prefix
            out.write(prefix)
            data = memoryview(lines.data.replace(b"\n", b"\n" + prefix))
            if lines.data.endswith(b"\n"):
                data = data[: len(data) - len(prefix)]  # no line follows
        out.write(data)
        out.flush()

    def _json(self, lines: Lines) -> None:
        source = lines.source
        extra: dict[str, Any] = {"bar": lines.bar, "also": [s.rank for s in lines.also]}
        extra["t"], extra["step"] = lines.time, source.step
        for text in lines.list_texts():
            self._call.write_line(
                {
                    "event": "line",
                    "node": source.node or None,
                    "rank": source.rank,
                    "stream": source.stream,
                    "task": source.task,
                    "restart": source.restart,
                    "line": text,
                    "n": 1 + len(lines.also),
                    **{key: value for key, value in extra.items() if value},
                }
            )

    def _event(self, event: StreamEvent) -> None:
        if self._call.flags.json:
            self._call.write_line({"event": event.kind, "text": event.text, "t": event.t})
            return
        clock = time.strftime("%H:%M:%S", time.localtime(event.t)) if event.t else ""
        text = f"{clock} {defuse(event.text)}".strip()
        self._call.output.say(self._call.output.talk("faint", text))

    # prefixes

    def _prefix(self, sources: tuple[LogSource, ...]) -> bytes:
        if sources not in self._prefixes:
            if self._learn(sources):
                self._prefixes.clear()
            self._prefixes[sources] = self._made(sources).encode()
        return self._prefixes[sources]

    def _learn(self, sources: Iterable[LogSource]) -> bool:
        """Whether the prefix has to become wider for these, or ``r*`` now means more ranks."""
        before = (self._widths, len(self._ranks))
        node, rank = self._widths
        for source in sources:
            self._nodes.setdefault(source.node, _COLOURS[len(self._nodes) % len(_COLOURS)])
            self._ranks.update(() if source.rank is None else ((source.step, source.rank),))
            node = max(node, min(len(source.node), _WIDEST_NODE))
            rank = max(rank, len(self._who((source,))))
        self._widths = (node, rank)
        return before != (self._widths, len(self._ranks))

    def _made(self, sources: tuple[LogSource, ...]) -> str:
        first = sources[0]
        node, rank = self._widths
        name = first.node if len({s.node for s in sources}) == 1 else "*"
        name = "job" if first.stream == "job" else name
        who = f"{pad(clip(defuse(name), node), node)} {pad(self._who(sources), rank)}"
        if self._ink.colour:
            who = f"\x1b[{self._nodes[first.node]}m{who}\x1b[0m"
        return f"{who} {_MARKS[first.stream]} "

    def _who(self, sources: tuple[LogSource, ...]) -> str:
        """``r3``, ``r0-15``, or ``r*`` for every rank that is there, behind its step or group."""
        places = {(s.step, s.rank) for s in sources if s.rank is not None}
        ranks = sorted({rank for _, rank in places})
        parts = {step for step, _ in places}
        there = {place for place in self._ranks if place[0] in parts}
        every = len(ranks) > 1 and places == there and ranks[0] == 0
        elements = sorted({int(s.task) for s in sources}) if self._array else ()
        words = [f"e{fold_indexes(elements)}"] if elements else []
        if self._parts and parts:
            words.append(defuse(parts.pop()) if len(parts) == 1 else "*")
        if ranks:
            words.append("r*" if every else f"r{fold_indexes(ranks)}")
        return " ".join(words)


def _plain(text: str) -> str:
    return _SGR.sub("", text)
