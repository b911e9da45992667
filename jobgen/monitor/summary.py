"""What the monitors of a job saw, as values: read from the lines that ``monitored.sh`` sums up.

The lines come from files that the job's own user can write, so nothing in them is believed: what is
no number in its range is passed over, and a name is a name or its line is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from jobgen.named_tuple import NamedTuple

MIB = 1 << 20

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,6})?", re.ASCII)
_WORD = re.compile(r"[a-z][a-z0-9_]{0,30}", re.ASCII)
_INDEX = re.compile(r"\d{1,4}", re.ASCII)


class Now(NamedTuple):
    """The newest sample of one GPU."""

    time: float
    """Seconds since 1970, of the node's clock."""
    util: float | None = None
    memory: float | None = None
    """Bytes."""
    temperature: float | None = None
    power: float | None = None
    clock: float | None = None
    reasons: tuple[str, ...] = ()
    """Why the clock is held down at this moment."""


class GpuSummary(NamedTuple):
    """One GPU over the job: per cent, bytes, degrees Celsius, watts, MHz. None is not known."""

    number: int
    samples: int
    util: float | None = None
    """The mean; ``p10`` is what a tenth of the samples lie at or below."""
    p10: float | None = None
    idle: float | None = None
    """Share of the samples under 5 per cent of utilisation, 0 to 1."""
    memory: float | None = None
    """The peak."""
    memory_total: float | None = None
    temperature: float | None = None
    """The highest."""
    power: float | None = None
    """The mean."""
    limit: float | None = None
    clock: float | None = None
    """The mean of the samples that were not idle."""
    clock_max: float | None = None
    held: Mapping[str, float] = {}
    """Reason → share of the samples in which it held the clock down, 0 to 1."""
    now: Now | None = None


class NodeSummary(NamedTuple):
    """One node over the job. Memory is in bytes, rates in bytes for each second."""

    name: str
    samples: int
    first: float
    """The times of the first and the last sample, of the node's clock."""
    last: float
    load: float | None = None
    """The mean of the load of one minute."""
    cpu: float | None = None
    """The mean of the share of CPU time in use, per cent."""
    memory: float | None = None
    """The peak of what is in use."""
    memory_total: float | None = None
    received: float | None = None
    sent: float | None = None
    rdma_received: float | None = None
    rdma_sent: float | None = None
    gpus: tuple[GpuSummary, ...] = ()

    @property
    def util(self) -> float | None:
        """The mean utilisation of its GPUs, per cent."""
        return compute_mean(gpu.util for gpu in self.gpus)


def summarize_nodes(texts: Sequence[str]) -> tuple[NodeSummary, ...]:
    """Every node that these lines tell of, in the order of their names."""
    found: dict[str, NodeSummary] = {}
    gpus: dict[str, dict[int, GpuSummary]] = {}
    for line in "\n".join(texts).split("\n"):
        kind, _, rest = line.partition(" ")
        name, _, words = rest.partition(" ")
        if not _NAME.fullmatch(name):
            continue
        if kind == "node" and (node := _node(name, _words(words))) is not None:
            found[name] = node
        elif kind == "gpu":
            index, _, words = words.partition(" ")
            if _INDEX.fullmatch(index):
                gpus.setdefault(name, {})[int(index)] = _gpu(int(index), _words(words))
    return tuple(
        found[name]._replace(gpus=tuple(gpus.get(name, {})[i] for i in sorted(gpus.get(name, {}))))
        for name in sorted(found, key=_naturally)
    )


def compute_mean(values: Iterable[float | None]) -> float | None:
    """The mean of those that are known; None where none is."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _naturally(name: str) -> list[tuple[int, str]]:
    """``n2`` before ``n10``."""
    parts = re.findall(r"\d+|\D+", name)
    return [(int(p), "") if p.isdigit() else (-1, p) for p in parts]


class _Words(NamedTuple):
    """``key=value`` words of one line."""

    texts: Mapping[str, str]

    def number(self, key: str, factor: float = 1.0) -> float | None:
        """The value as a number; None where it is none."""
        text = self.texts.get(key, "")
        return float(text) * factor if _NUMBER.fullmatch(text) else None

    def share(self, key: str, of: int) -> float | None:
        """The value as a share of so many, at most 1."""
        count = self.number(key)
        return min(count / of, 1.0) if count is not None and of > 0 else None


def _words(text: str) -> _Words:
    return _Words(dict(word.partition("=")[::2] for word in text.split()[:64]))


def _node(name: str, words: _Words) -> NodeSummary | None:
    first, last = words.number("first"), words.number("last")
    if first is None or last is None or last < first:
        return None
    return NodeSummary(
        name,
        int(words.number("samples") or 0),
        first,
        last,
        load=words.number("load"),
        cpu=words.number("cpu"),
        memory=words.number("mem", MIB),
        memory_total=words.number("mem_total", MIB),
        received=words.number("rx"),
        sent=words.number("tx"),
        rdma_received=words.number("rdma_rx"),
        rdma_sent=words.number("rdma_tx"),
    )


def _gpu(index: int, words: _Words) -> GpuSummary:
    samples = int(words.number("samples") or 0)
    held = {
        key.removeprefix("by."): share
        for key in words.texts
        if key.startswith("by.") and _WORD.fullmatch(key.removeprefix("by."))
        if (share := words.share(key, samples)) is not None
    }
    return GpuSummary(
        index,
        samples,
        util=words.number("util"),
        p10=words.number("p10"),
        idle=words.share("idle", samples),
        memory=words.number("mem", MIB),
        memory_total=words.number("mem_total", MIB),
        temperature=words.number("temp"),
        power=words.number("power"),
        limit=words.number("limit"),
        clock=words.number("clock"),
        clock_max=words.number("clock_max"),
        held=held,
        now=_now(words),
    )


def _now(words: _Words) -> Now | None:
    time = words.number("at")
    if time is None:
        return None
    return Now(
        time,
        util=words.number("now.util"),
        memory=words.number("now.mem", MIB),
        temperature=words.number("now.temp"),
        power=words.number("now.power"),
        clock=words.number("now.clock"),
        reasons=tuple(filter(_WORD.fullmatch, words.texts.get("now.by", "").split("+"))),
    )
