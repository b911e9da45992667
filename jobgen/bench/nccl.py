"""NCCL's own words: the network that it chose, and the table of nccl-tests."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from jobgen.named_tuple import NamedTuple
from jobgen.shell import split_lines

_USING = re.compile(r"Using network (.+?)\s*$")
_NET = re.compile(r"\bNET/(\w+) : Using")
_PATH = re.compile(r"\bvia (P2P|SHM|NET)(?:/([\w ./-]+?))?(?:/\d+|\s|$)")
_TAGGED = re.compile(r"^(\[[\d,]+\]<\w+>:\s?)+")
_ROW = re.compile(r"\s*\d+\s+\d+\s+\w+\s+\S+")
TCP = ("socket", "fastsocket")


class NcclPaths(NamedTuple):
    """How NCCL sends."""

    network: str = ""
    """IB, Socket, AWS Libfabric, gIB: as ``Using network`` says; empty where it said nothing."""
    direct: bool | None = None
    """Whether GPUs' memory goes to the card without the CPU's; None where nothing was sent."""
    inside: tuple[str, ...] = ()
    """P2P, SHM: between GPUs of a node."""

    @property
    def tcp(self) -> bool:
        """Whether the network is TCP."""
        return self.network.lower() in TCP


class NcclTestsRow(NamedTuple):
    """A line of nccl-tests' table, out of place. Bytes, seconds, bytes per second."""

    bytes: int
    seconds: float
    algorithm: float
    bus: float
    wrong: int = 0


class Table(NamedTuple):
    """What nccl-tests printed."""

    ranks: int
    """As many as it named; 0 where it named none."""
    rows: tuple[NcclTestsRow, ...]
    average: float | None = None
    """Bytes per second, over all sizes: small ones too."""
    failed: bool = False
    """Whether it says so of its results."""


def read_paths(lines: Sequence[str]) -> NcclPaths:
    """What NCCL's log says of networks. Any text is taken; what is not understood says nothing."""
    network, direct = "", None
    inside: dict[str, None] = {}
    for line in lines:
        said = _USING.search(line) or (None if network else _NET.search(line))
        if said:
            network = said[1]
        path = _PATH.search(line)
        if path and path[1] == "NET":
            direct = bool(direct) or "GDRDMA" in line
        elif path:
            inside[path[1]] = None
    return NcclPaths(network[:60], direct, tuple(inside))


def parse_table(text: str) -> Table:
    """The table of all_reduce_perf and its kin, in the forms of all releases since 2.0.

    ``mpirun``'s tags before the lines are taken off. A line that is no row is passed over.
    """
    ranks, rows = 0, []
    average, failed = None, False
    for raw in split_lines(text):
        line = _TAGGED.sub("", raw.rstrip())
        if line.lstrip().startswith("#"):
            ranks += bool(re.search(r"#\s+Rank\s+\d+\s+(Group|Pid)\b", line))
            if found := re.search(r"Avg bus bandwidth\s*:\s*([\d.]+)", line):
                average = _number(found[1])
            failed = failed or bool(re.search(r"Out of bounds values : \d+ FAILED", line))
        elif _ROW.match(line):
            row = _row(line.split())
            rows += [row] if row else []
    gigas = average * 1e9 if average is not None else None
    return Table(ranks, tuple(rows), gigas, failed)


def _row(words: list[str]) -> NcclTestsRow | None:
    """A row of nccl-tests: size count type redop [root], and twice time algbw busbw #wrong."""
    rest = words[3:]
    if rest and not _number(rest[0]) and not rest[0].lstrip("-").isdigit():
        rest = rest[1:]  # sum, prod, none
    if len(rest) in (5, 9):
        rest = rest[1:]  # the root, which newer ones print as -1
    numbers = [_number(word) for word in rest[:3]]
    size = _number(words[0])
    if len(rest) not in (4, 8) or size is None or None in numbers:
        return None
    micro, algorithm, bus = (number or 0.0 for number in numbers)
    wrong = _number(rest[3])
    return NcclTestsRow(int(size), micro / 1e6, algorithm * 1e9, bus * 1e9, int(wrong or 0))


def _number(word: str) -> float | None:
    if not re.fullmatch(r"\d{1,18}(\.\d{1,18})?(e[+-]?\d{1,3})?", word):
        return None
    value = float(word)
    return value if math.isfinite(value) else None
