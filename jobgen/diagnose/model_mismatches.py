"""A model that differs between ranks, by the check that PyTorch's DDP makes of its parameters."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from jobgen.diagnose.log_lines import ProcessLog
from jobgen.model.cause import FailureCause
from jobgen.wording import name_ranks

_SHAPE = re.compile(
    r"(?:\[(?P<rank>\d+)\]: )?params\[(?P<number>\d+)\] in this process with "
    r"(?P<what>sizes|strides) (?P<sizes>\[[^\]]*\]) appears not to match"
)
_COUNTS = re.compile(
    r"Rank (?P<rank>\d+) has (?P<count>\d+) params, while rank (?P<other>\d+) has "
    r"inconsistent (?P<others>\d+) params"
)


def describe_models(cause: FailureCause, streams: Sequence[ProcessLog]) -> FailureCause | None:
    """The cause with what of the model differs, and on which ranks; None if DDP reports nothing."""
    if counts := _read_counts(streams):
        return _describe_counts(cause, counts)
    shapes = _read_shapes(streams)
    return _describe_shapes(cause, shapes, streams) if shapes else None


def _read_counts(streams: Iterable[ProcessLog]) -> Mapping[int, int]:
    """How many parameters the model has on each rank."""
    counts: dict[int, int] = {}
    for stream in streams:
        for line in stream.lines:
            for match in _COUNTS.finditer(line.text) if "inconsistent" in line.text else ():
                counts[int(match["rank"])] = int(match["count"])
                counts[int(match["other"])] = int(match["others"])
    return counts


def _describe_counts(cause: FailureCause, counts: Mapping[int, int]) -> FailureCause:
    usual, alike = Counter(counts.values()).most_common(1)[0]
    odd = sorted(rank for rank, count in counts.items() if count != usual)
    clear = alike > len(odd)
    ranks = odd if clear else sorted(counts)[:2]
    parts = [f"{name_ranks([ranks[0]])} has {counts[ranks[0]]:,} parameters"]
    parts += [f"rank {rank} {counts[rank]:,}" for rank in ranks[1:3]]
    parts += [f"the others {usual:,}"] if clear else []
    return _blame(cause, odd if clear else [])._replace(says=", ".join(parts))


def _read_shapes(streams: Iterable[ProcessLog]) -> Mapping[int | None, re.Match[str]]:
    """What each rank reports that differs from rank 0; None for a rank that is not known."""
    shapes: dict[int | None, re.Match[str]] = {}
    for stream in streams:
        for line in stream.lines:
            match = _SHAPE.search(line.text) if "params[" in line.text else None
            if match is not None:
                rank = int(match["rank"]) if match["rank"] else stream.rank
                shapes.setdefault(rank, match)
    return shapes


def _describe_shapes(
    cause: FailureCause,
    shapes: Mapping[int | None, re.Match[str]],
    streams: Sequence[ProcessLog],
) -> FailureCause:
    ranks = sorted(rank for rank in shapes if rank is not None)
    first = shapes[ranks[0]] if ranks else shapes[None]
    who = f"on {name_ranks(ranks)}" if ranks else "on one rank"
    says = f"parameter {first['number']} has {first['what']} {first['sizes']} {who}"
    says += " and others on rank 0"
    if first["what"] == "sizes" and re.fullmatch(r"\[\d{3,}, \d+\]", first["sizes"]):
        says += "; a first size that differs is usually the vocabulary"
    known = {stream.rank for stream in streams if stream.rank is not None} | set(ranks)
    world = len(known) if known == set(range(len(known))) else 0
    alike = len({match["sizes"] for match in shapes.values()}) == 1
    if len(ranks) > 1 and alike and ranks == list(range(1, world)):
        return _blame(cause, [0])._replace(says=says)
    node = _find_only_node(ranks, streams)
    return _blame(cause, ranks)._replace(says=says, node=node)


def _find_only_node(ranks: Sequence[int], streams: Sequence[ProcessLog]) -> str:
    """The one node of these ranks; empty if they are on several, or if others are on it."""
    nodes = {s.rank: s.origin.node for s in streams if s.rank is not None and s.origin.node}
    own = {nodes.get(rank, "") for rank in ranks}
    beside = {node for rank, node in nodes.items() if rank not in ranks}
    return own.pop() if len(own) == 1 and (len(ranks) == 1 or not own & beside) else ""


def _blame(cause: FailureCause, ranks: Sequence[int]) -> FailureCause:
    """The cause with the one rank that differs; without any if several do."""
    if len(ranks) == 1 and ranks[0] == cause.rank:
        return cause._replace(alike=0, all_ranks=False)
    rank = ranks[0] if len(ranks) == 1 else None
    return cause._replace(rank=rank, node="", code=None, signal=0, alike=0, all_ranks=False)
