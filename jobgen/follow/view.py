"""Which of all the lines a person wants to see."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from jobgen.follow.source import LogSource, parse_source

Ranks = tuple[range, ...]


def parse_ranks(text: str) -> Ranks | None:
    """The ranks of ``0,8-15``; None for ``all``. ValueError on anything else.

    >>> parse_ranks("0,8-15")
    (range(0, 1), range(8, 16))
    """
    if text.strip().lower() in {"all", "*"}:
        return None
    return tuple(_span(part) for part in text.split(","))


def _span(text: str) -> range:
    found = re.fullmatch(r"\s*(\d{1,7})(?:-(\d{1,7}))?\s*", text, re.ASCII)
    if found is None:
        raise ValueError(f"'{text.strip()}' is no rank; write 0, 0,4 or 8-15")
    first, last = int(found[1]), int(found[2] or found[1])
    if last < first:
        raise ValueError(f"'{text.strip()}' runs backwards; write {last}-{first}")
    return range(first, last + 1)


@dataclass(frozen=True, slots=True)
class View:
    """A choice of lines and of their form."""

    ranks: Ranks | None = None
    """None for all, and for the job's own log beside them."""
    nodes: tuple[str, ...] = ()
    """Names, with ``*`` for any characters; empty for all."""
    stream: Literal["all", "out", "err"] = "all"
    grep: str = ""
    """A regular expression; only lines in which it is found."""
    lines: int | None = None
    """Of what is there already, only the last so many lines of all that are shown."""
    files: tuple[str, ...] = ()
    """Names of files, or paths below ``logs/``, with ``*`` for any characters; empty for all."""
    brief: bool = False
    """Of the ranks beside rank 0, only what they wrote to stderr."""
    timestamps: bool = False
    """Whether each line is shown with its time."""
    since: float | None = None
    """Only lines of the last so many seconds."""
    tasks: frozenset[str] | None = None
    """Elements of an array; None for all."""
    restart: int | None = None
    steps: tuple[str, ...] = ()
    """Names of steps; empty for all."""
    collapse: bool = True
    window: float = 0.25
    """Seconds in which equal lines of several ranks become one."""
    colour: bool = False
    """Whether the program's own colours stay."""
    raw: bool = False
    """Bytes as they are: not filtered, not collapsed."""
    fold: bool = False
    """Whether what launchers write after a failure becomes one line, and what the prefix of a line
    or the run itself says is left out of stderr: ``[rank3]: ``, and ``folder``."""
    folder: str = ""
    """The run's copy of the user's files, ending in a slash."""

    @property
    def gathers(self) -> bool:
        """Whether lines wait for their equals from other ranks."""
        one = self.ranks is not None and sum(len(r) for r in self.ranks) == 1
        return self.collapse and not self.raw and not one

    @property
    def narrowed(self) -> bool:
        """Whether some files are left out."""
        chosen = (self.ranks, self.tasks, self.restart)
        more = (
            self.nodes or self.files or self.steps or self.since is not None or self.stream != "all"
        )
        return bool(more) or any(x is not None for x in chosen)

    def wants(self, path: str) -> bool:
        """Whether this file needs to be read at all."""
        return self.identify(path) is not None

    def identify(self, path: str) -> LogSource | None:
        """The source of this file; None if it is not shown. A file that is asked for by name may
        be one that no rank writes."""
        source = parse_source(path)
        name = path.rpartition("/")[2]
        if self.files:
            chosen = _named(name, self.files) or _named(path.removeprefix("logs/"), self.files)
            if not chosen:
                return None
            source = source or LogSource(name, None, "out")
        if source is None or (not self.files and not self.shows(source)):
            return None
        return source

    def shows(self, source: LogSource) -> bool:
        """Whether lines of this source are shown."""
        if self.tasks is not None and source.task not in self.tasks:
            return False
        if source.rank is None:
            narrow = self.nodes or self.steps
            return self.ranks is None and not narrow and self.stream != "err"
        return (
            self.restart in (None, source.restart)
            and self.stream in ("all", source.stream)
            and (self.ranks is None or any(source.rank in span for span in self.ranks))
            and (not self.brief or source.rank == 0 or source.stream == "err")
            and (not self.nodes or _named(source.node, self.nodes))
            and (not self.steps or source.step in self.steps)
        )


def _named(node: str, patterns: Sequence[str]) -> bool:
    return any(re.fullmatch(re.escape(p).replace(r"\*", ".*"), node) for p in patterns)
