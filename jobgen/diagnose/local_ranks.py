"""Ranks that count on their node only (``[default3]:`` of torchrun's ``--tee``) → ranks of the job.

They stay what they are where several nodes run and nothing shows which of them wrote a line: the
third rank of one node is not that of another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from jobgen.diagnose.log_lines import ProcessLog
from jobgen.diagnose.origins import Origin

_LISTS = re.compile(r"\b(?P<what>local|global)_ranks ?= ?\[(?P<first>\d+)")
"""torchrun's result of a rendezvous, on two lines."""
_REPORTED = re.compile(r"^ *rank +: (?P<rank>\d+) \(local_rank: (?P<local>\d+)\)")
_HOST = re.compile(r"^ *host +: (?P<host>[\w.-]+)")
"""torchrun's report of failures."""
_OWN_RANK = re.compile(
    r"\[(?:PG [^\]]*)?Rank (?P<watchdog>\d+)\]|\brank (?P<nccl>\d+) nranks \d+"
    r"|\bRANK[=:] ?(?P<variable>\d+)"
)
_NODE_RANK = re.compile(
    r"(?:--node[-_]rank[= ]|\b(?:GROUP_RANK|NODE_RANK|SLURM_NODEID)[=:] ?"
    r"|\b(?:group|node)_rank *[=:] ?)(?P<node>\d{1,5})\b"
)
_PER_NODE = re.compile(
    r"(?:--nproc[-_]per[-_]node[= ]|\bnproc_per_node *[=:] ?|\bLOCAL_WORLD_SIZE[=:] ?)(?P<many>\d+)"
)
_SEVERAL = re.compile(
    r"--?n?nodes[= ]+(?:\d+:)?(?:[2-9]|1\d)|max_nodes +: (?:[2-9]|1\d)|node[-_]rank[=: ]+[1-9]"
    r"|num_machines[=: ]+(?:[2-9]|1\d)|group_world_size ?= ?(?:[2-9]|1\d)|GROUP_RANK[=:] ?[1-9]"
)
"""Signs that a job has several nodes."""
_WORLD = re.compile(r"\bnranks (\d+)\b|\b[Ww]orld[_ ]?[Ss]ize[=: ]+(\d+)|\bWORLD_SIZE[=:] ?(\d+)")
_HOSTS = re.compile(r"^([A-Za-z][\w.-]{0,63}):\d+:\d+ \[?")
_STREAM = re.compile(r"(?:attempt_\d+/.*|[._-]?(?:std)?(?:out|err)\b.*|\.log)$")
"""Of a path, what differs between the files of one node."""


def resolve_local_ranks(streams: Sequence[ProcessLog]) -> list[ProcessLog]:
    """The streams, with the rank in the job of each whose rank on its node is known."""
    if not any(s.origin.local or s.origin.local_rank is not None for s in streams):
        return list(streams)
    nodes: dict[str, list[ProcessLog]] = {}
    for stream in streams:
        nodes.setdefault(_name_node(stream), []).append(stream)
    first_ranks = _find_first_ranks(nodes)
    hosts = {name: _find_host(rows) for name, rows in nodes.items()}
    merged: dict[tuple[str, Origin], list[ProcessLog]] = {}
    for name, rows in nodes.items():
        for stream in rows:
            origin = _resolve(stream.origin, first_ranks.get(name), hosts[name])
            merged.setdefault((stream.path, origin), []).append(stream)
    return [_join(path, origin, rows) for (path, origin), rows in merged.items()]


def _name_node(stream: ProcessLog) -> str:
    """What the streams of one node have in common."""
    return stream.origin.node or _STREAM.sub("", stream.path)


def _resolve(origin: Origin, first: int | None, host: str) -> Origin:
    if not origin.local or origin.rank is None or first is None:
        return origin._replace(local_rank=None)
    return Origin(first + origin.rank, origin.node or host)


def _join(path: str, origin: Origin, rows: Sequence[ProcessLog]) -> ProcessLog:
    if len(rows) == 1:
        return rows[0]._replace(origin=origin)
    lines = sorted((line for row in rows for line in row.lines), key=lambda line: line.order)
    return ProcessLog(path, origin, tuple(lines))


def _find_first_ranks(nodes: Mapping[str, Sequence[ProcessLog]]) -> Mapping[str, int]:
    """The rank in the job of each node's local rank 0, where it is known."""
    local = {name for name, rows in nodes.items() if any(row.origin.local for row in rows)}
    per_node = _read_numbers(_PER_NODE, "many", [s for rows in nodes.values() for s in rows])
    numbers = _number_by_name(local)
    first: dict[str, int] = {}
    for name in local:
        known = _read_first_ranks(nodes[name])
        node_ranks = _read_numbers(_NODE_RANK, "node", nodes[name]) or numbers.get(name, set())
        if not known and len(node_ranks) == len(per_node) == 1:
            known = {min(node_ranks) * min(per_node)}
        if len(known) == 1:
            first[name] = known.pop()
    if not first and len(local) == 1 and not _has_several_nodes(nodes):
        return dict.fromkeys(local, 0)
    return first


def _has_several_nodes(nodes: Mapping[str, Sequence[ProcessLog]]) -> bool:
    streams = [stream for rows in nodes.values() for stream in rows]
    ranks = [s.origin.rank for s in streams if s.origin.local and s.origin.rank is not None]
    hosts: set[str] = set()
    for line in (line.text for stream in streams for line in stream.lines):
        if _SEVERAL.search(line):
            return True
        world = _WORLD.search(line)
        sizes = [int(number) for number in world.groups() if number] if world else []
        # a file need not show every rank of a node, and no node has more than 16
        if any(size > max(len(set(ranks)), max(ranks, default=0) + 1, 16) for size in sizes):
            return True
        hosts |= {host[1] for host in (_HOSTS.match(line),) if host}
    return len(hosts) > 1


def _read_numbers(pattern: re.Pattern[str], group: str, streams: Iterable[ProcessLog]) -> set[int]:
    lines = (line.text for stream in streams for line in stream.lines)
    return {int(match[group]) for line in lines for match in pattern.finditer(line)}


def _number_by_name(names: Iterable[str]) -> Mapping[str, set[int]]:
    """The ranks of nodes that are numbered from 0 in the names of their files."""
    numbers = {name: re.findall(r"\d+", name) for name in names}
    last = {name: {int(found[-1])} for name, found in numbers.items() if found}
    return last if {min(n) for n in last.values()} == set(range(len(numbers))) else {}


def _read_first_ranks(streams: Sequence[ProcessLog]) -> set[int]:
    """What the lines of one node show of it, in any way."""
    known: set[int] = set()
    for stream in streams:
        if stream.rank is not None and stream.origin.local_rank is not None:
            known.add(stream.rank - stream.origin.local_rank)
        lists: dict[str, int] = {}
        for line in stream.lines:
            if (each := _LISTS.search(line.text)) is not None:
                lists[each["what"]] = int(each["first"])
            if len(lists) == 2:
                known.add(lists["global"] - lists["local"])
                lists = {}
            if (report := _REPORTED.match(line.text)) is not None:
                known.add(int(report["rank"]) - int(report["local"]))
            own = _OWN_RANK.search(line.text) if stream.origin.local else None
            if own is not None and stream.origin.rank is not None:
                known.add(int(next(filter(None, own.groups()))) - stream.origin.rank)
    return known


def _find_host(streams: Iterable[ProcessLog]) -> str:
    """The one host that torchrun's report names; empty if there are none or several."""
    lines = (line.text for stream in streams for line in stream.lines)
    hosts = {match["host"] for match in map(_HOST.match, lines) if match}
    return hosts.pop() if len(hosts) == 1 else ""
