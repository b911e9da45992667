"""What the collectives of a bench job wrote, line by line. Every line is hostile until read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from jobgen.bench import formulas
from jobgen.named_tuple import NamedTuple
from jobgen.shell import split_lines

LIMIT = 4 << 20
"""Bytes of a result that are read."""
_WORD = 200


class Point(NamedTuple):
    """One collective at one size: seconds of its slowest rank, over the repetitions."""

    op: str
    bytes: int
    ranks: int
    median: float
    p10: float
    p90: float
    repeats: int
    wrong: tuple[int, ...] = ()
    """Elements that were wrong, on each rank."""

    @property
    def algorithm(self) -> float:
        """Bytes per second."""
        return formulas.compute_algbw(self.bytes, self.median)

    @property
    def bus(self) -> float:
        """Bytes per second."""
        return formulas.compute_busbw(self.op, self.ranks, self.bytes, self.median)

    @property
    def spread(self) -> float:
        """What lies between the tenth and the ninetieth of a hundred, as a part of the median."""
        return (self.p90 - self.p10) / self.median


class PairResult(NamedTuple):
    """An all-reduce within two nodes."""

    a: str
    b: str
    point: Point
    wrong: bool = False
    """Whether a result was wrong on one of its ranks."""


class Bench(NamedTuple):
    """All that was measured so far."""

    ranks: int = 0
    hosts: tuple[str, ...] = ()
    backend: str = ""
    device: str = ""
    versions: tuple[tuple[str, str], ...] = ()
    """torch, nccl."""
    points: tuple[Point, ...] = ()
    pairs: tuple[PairResult, ...] = ()
    network_lines: tuple[str, ...] = ()
    """NCCL's own words of networks and paths."""
    skipped: tuple[tuple[str, str], ...] = ()
    """What was not measured, and why."""
    tests: str = ""
    """What nccl-tests printed."""
    ended: bool = False

    def select(self, op: str) -> tuple[Point, ...]:
        """The points of one collective, the smallest first."""
        return tuple(sorted((p for p in self.points if p.op == op), key=lambda p: p.bytes))

    @property
    def wrong(self) -> tuple[int, ...]:
        """Ranks on which a result was wrong."""
        found = {r for point in self.points for r, count in enumerate(point.wrong) if count}
        return tuple(sorted(found))

    @property
    def wrong_pairs(self) -> tuple[tuple[str, str], ...]:
        """Nodes between which a result was wrong."""
        return tuple((pair.a, pair.b) for pair in self.pairs if pair.wrong)

    @property
    def faulty(self) -> bool:
        """Whether any result was wrong."""
        return bool(self.wrong or self.wrong_pairs)


def read(text: str) -> Bench:
    """The results that stand in a bench job's file; any other line is passed over."""
    found = Bench()
    for said in _lines(text):
        take = _TAKEN.get(str(said.get("kind")))
        if take is not None:
            found = take(found, said)
    return found


def _lines(text: str) -> Iterator[dict[str, Any]]:
    for line in split_lines(text):
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(said, dict):
            yield said


def _world(found: Bench, said: Mapping[str, Any]) -> Bench:
    versions = (("torch", said.get("torch")), ("nccl", said.get("nccl")))
    return found._replace(
        ranks=_whole(said.get("ranks")) or 0,
        hosts=_words(said.get("hosts")),
        backend=_text(said.get("backend")),
        device=_text(said.get("device")),
        versions=tuple((name, _text(v)) for name, v in versions if isinstance(v, str)),
    )


def _point(found: Bench, said: Mapping[str, Any]) -> Bench:
    point = _times(said, str(said.get("op")), found.ranks)
    return found._replace(points=(*found.points, point)) if point else found


def _pair(found: Bench, said: Mapping[str, Any]) -> Bench:
    point = _times(said, "all_reduce", _whole(said.get("ranks")) or 0)
    a, b = _text(said.get("a")), _text(said.get("b"))
    if point is None or not a or not b or a == b:
        return found
    pair = PairResult(a, b, point._replace(wrong=()), any(point.wrong))
    return found._replace(pairs=(*found.pairs, pair))


def _net(found: Bench, said: Mapping[str, Any]) -> Bench:
    return found._replace(network_lines=_words(said.get("lines")))


def _skipped(found: Bench, said: Mapping[str, Any]) -> Bench:
    one = (_text(said.get("op")), _text(said.get("why")))
    return found._replace(skipped=(*found.skipped, one))


def _tests(found: Bench, said: Mapping[str, Any]) -> Bench:
    text = said.get("text")
    return found._replace(tests=text) if isinstance(text, str) else found


def _end(found: Bench, _: Mapping[str, Any]) -> Bench:
    return found._replace(ended=True)


_TAKEN = {
    "world": _world,
    "point": _point,
    "pair": _pair,
    "net": _net,
    "skipped": _skipped,
    "nccl-tests": _tests,
    "end": _end,
}


def _times(said: Mapping[str, Any], op: str, ranks: int) -> Point | None:
    size, repeats = _whole(said.get("bytes")), _whole(said.get("repeats"))
    median, p10, p90 = (_seconds(said.get(key)) for key in ("median", "p10", "p90"))
    if op not in formulas.OPS or not ranks or not size or not repeats:
        return None
    if not median or not p10 or not p90 or not p10 <= median <= p90:
        return None
    wrong = said.get("wrong")
    counts = wrong if isinstance(wrong, list) else []
    faults = tuple(_whole(count) or 0 for count in counts)
    return Point(op, size, ranks, median, p10, p90, repeats, faults)


def _whole(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 60:
        return value
    return None


def _seconds(value: object) -> float | None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return float(value) if 0 < value < 1e9 else None


def _text(value: object) -> str:
    return value[:_WORD] if isinstance(value, str) else ""


def _words(value: object) -> tuple[str, ...]:
    found = value if isinstance(value, list) else []
    return tuple(word[:_WORD] for word in found[:4096] if isinstance(word, str))
