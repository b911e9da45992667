"""The logs of a job → the lines of each process, apart from each other and from its launcher's.

One file may hold the lines of all ranks, with or without a prefix that tells them apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from jobgen.diagnose.excerpts import cut_line
from jobgen.diagnose.logger_prefixes import strip_loggers
from jobgen.diagnose.origins import (
    Origin,
    choose_prefixes,
    merge,
    read_file_origins,
    split_prefix,
)
from jobgen.diagnose.traceback_forms import restore_tracebacks
from jobgen.follow.sanitize import clean
from jobgen.follow.timestamps import count_days
from jobgen.named_tuple import NamedTuple

LONGEST = 4000
"""Characters of a line that are read."""


_READ = 1 << 16
"""Characters of a line in which an error is looked for."""
_MOST_DOUBLED = 5
"""Lines from which on an empty one behind each has no meaning."""


class LogText(NamedTuple):
    """A piece of one log file."""

    path: str
    text: str
    first: int = 1
    """The number of its first line in the file; 0 if unknown."""


class LogLine(NamedTuple):
    """One line, without what stood before it."""

    text: str
    number: int
    """In its file, from 1; 0 if unknown."""
    order: int
    """Its place among all lines of all pieces of its file."""
    time: float | None = None
    """When it, or the last line before it that states a time, was written: seconds in a year."""


class ProcessLog(NamedTuple):
    """The lines of one process in one file; or of several, where nothing tells them apart."""

    path: str
    origin: Origin
    lines: tuple[LogLine, ...]

    @property
    def known(self) -> bool:
        """Whether one rank wrote it."""
        return self.origin.rank is not None

    @property
    def rank(self) -> int | None:
        """The rank in the job; None if it is not known, or counts on its node only."""
        return self.origin.job_rank


def read_streams(texts: Iterable[LogText]) -> list[ProcessLog]:
    """All lines, by file and process, in their order."""
    pieces: dict[str, list[LogText]] = {}
    for piece in texts:
        pieces.setdefault(piece.path, []).append(piece)
    origins = read_file_origins(sorted(pieces))
    return [
        stream
        for path in sorted(pieces)
        for stream in _split_file(path, pieces[path], origins[path])
    ]


def _split_file(path: str, pieces: Sequence[LogText], origin: Origin) -> list[ProcessLog]:
    lines = [line for piece in pieces for line in _read_piece(piece)]
    if len(lines) > _MOST_DOUBLED and not any(text.strip() for text, _ in lines[1::2]):
        lines = lines[::2]  # some collectors of logs write an empty line behind each
    starts = _count_stamps([text for text, _ in lines])
    bare = [text[start:] for (text, _), start in zip(lines, starts, strict=True)]
    prefixes = choose_prefixes(bare, known=origin.rank is not None)
    streams: dict[Origin, list[LogLine]] = {}
    times: dict[Origin, float] = {}
    for order, (text, number) in enumerate(lines):
        written, rest = split_prefix(bare[order], prefixes)
        who = merge(origin, written)
        time = read_time(rest)
        if (time := read_time(text) if time is None else time) is not None:
            times[who] = time
        line = LogLine(_shorten(rest), number, order, times.get(who))
        streams.setdefault(who, []).append(line)
    return [ProcessLog(path, who, tuple(_strip(rows))) for who, rows in streams.items()]


_STAMP = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)(?:: ?|\s|$)"
)
"""A time with its zone, as containers' runtimes write it before each line of a program."""
_STAMPED = 0.9
"""The share of a file's lines from which on those times are a collector's."""


def _count_stamps(texts: Sequence[str]) -> list[int]:
    """The length of the time that a collector of logs wrote before each line; else 0."""
    filled = [text for text in texts if text.strip()]
    starts = [match.end() if (match := _STAMP.match(text)) else 0 for text in texts]
    stamped = sum(start > 0 for start in starts)
    return starts if stamped > _STAMPED * len(filled) else [0] * len(texts)


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST else cut_line(text[:_READ], LONGEST)


def _strip(lines: Sequence[LogLine]) -> Iterator[LogLine]:
    restored = restore_tracebacks(strip_loggers(line.text for line in lines))
    return (lines[row.place]._replace(text=row.text) for row in restored)


def _read_piece(piece: LogText) -> list[tuple[str, int]]:
    """The lines as people read them: no control characters, the last state of progress bars."""
    texts = [line.rstrip("\r").rpartition("\r")[2] for line in clean_text(piece.text).split("\n")]
    if texts and not texts[-1]:
        texts.pop()
    return [
        (part, piece.first + at if piece.first else 0)
        for at, text in enumerate(texts)
        for part in _split_bar(text)
    ]


_BAR = re.compile(r"(?<=[\])s%|])(?=(?:\[rank\d+\]: ?)?Traceback \(most recent call last\):)")


def _split_bar(text: str) -> list[str]:
    """A progress bar and the traceback that was written behind it, without a line break."""
    if "Traceback (most" not in text:
        return [text]
    bar = _BAR.search(text)
    return [text[: bar.start()], text[bar.start() :]] if bar else [text]


_TIME = re.compile(
    r"(?:\[?\w{1,12}\]?:? ?)??\W{0,2}"
    r"(?:\d{4}[-/](?P<m>\d\d)[-/](?P<d>\d\d)[T _]|[IWEF](?P<gm>\d\d)(?P<gd>\d\d) )"
    r"(?P<clock>\d\d:\d\d:\d\d)(?:[.,](?P<part>\d{1,9}))?"
)


def read_time(text: str) -> float | None:
    """The seconds of the year that a line begins with: glog states no year."""
    match = _TIME.match(text)
    if match is None:
        return None
    days = count_days(2024, int(match["m"] or match["gm"]), int(match["d"] or match["gd"]))
    hours, minutes, seconds = map(int, match["clock"].split(":"))
    part = float(f"0.{match['part']}") if match["part"] else 0.0
    start = count_days(2024, 1, 1) or 0
    day = (days or start) - start
    return day * 86_400 + hours * 3600 + minutes * 60 + seconds + part


_COLOUR = re.compile(r"(?:\^\[)?\[(?:0|1|2|3|4|7|22|39|49|[349][0-7]|1;[349][0-7]|38;5;\d+)m")
"""An escape sequence that was copied without its first character."""


def clean_text(text: str) -> str:
    """The text without escape sequences; carriage returns stay."""
    return _COLOUR.sub("", "\r".join(clean(part) for part in text.split("\r")))
