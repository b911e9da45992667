"""Whose output a line is: by the name of its file, and by what stands before the line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from jobgen.follow.source import parse_source
from jobgen.named_tuple import NamedTuple


class Origin(NamedTuple):
    """The rank and the node that wrote something; None and empty where nothing tells."""

    rank: int | None = None
    node: str = ""
    local: bool = False
    """Whether ``rank`` counts on its node only."""
    local_rank: int | None = None
    """The rank on its node, where a line shows both."""

    @property
    def job_rank(self) -> int | None:
        """The rank in the job; None if it is not known, or counts on its node only."""
        return None if self.local else self.rank


_RANKED = re.compile(
    r"(?:^|[/_.\-\[])(?:rank|global_rank|task|proc)[_\-.=]?(\d{1,6})(?=\D|$)", re.IGNORECASE
)
_NODE = re.compile(r"(?:^|[/_.\-])(?:node|host)[_\-.=]?([A-Za-z]*-?\d{1,5})(?=\D|$)", re.IGNORECASE)
_ELASTIC = re.compile(r"attempt_\d+/(\d{1,5})/(?:stdout|stderr|out|err)\b")
"""torchrun's ``--log-dir``: one folder for each local rank."""
_NUMBER = re.compile(r"\d+")


def read_file_origins(paths: Sequence[str]) -> dict[str, Origin]:
    """The origin of each log file; of files ``x.0.log … x.N.log`` the number is the rank."""
    origins = {path: _read_name(path) for path in paths}
    unknown = [path for path, origin in origins.items() if origin == Origin()]
    return {**origins, **_read_series(unknown)}


def _read_name(path: str) -> Origin:
    source = parse_source(path)
    if source is not None:
        return Origin(source.rank, source.node)
    node = _NODE.search(path)
    name = f"{node[0].strip('/_.-')}" if node else ""
    if elastic := _ELASTIC.search(path):
        return Origin(int(elastic[1]), name, local=True)
    ranked = _RANKED.search(path)
    return Origin(int(ranked[1]) if ranked else None, name)


def _read_series(paths: Iterable[str]) -> dict[str, Origin]:
    """Files whose names differ in one number that counts up from 0."""
    series: dict[tuple[str, ...], dict[int, str]] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        for match in _NUMBER.finditer(name):
            key = (folder, name[: match.start()], name[match.end() :])
            series.setdefault(key, {})[int(match[0])] = path
    return {
        path: Origin(rank)
        for members in series.values()
        if len(members) > 1 and sorted(members) == list(range(len(members)))
        for rank, path in members.items()
    }


class _Prefix(NamedTuple):
    """What launchers write before each line of a process."""

    pattern: re.Pattern[str]
    always: bool
    """Whether one line suffices; else most lines of the file must begin so."""


_PREFIXES = (
    # a logger's, before the rank that torch writes
    _Prefix(re.compile(r"\d{4}-\d\d-\d\d .{0,80}?(?=\[rank\d{1,6}\]: )"), always=True),
    _Prefix(re.compile(r"\[pod/(?P<node>[\w.-]+)/[\w.-]+\] "), always=True),
    _Prefix(
        # torch writes a space behind it, and torchrun none: code is indented by an even number
        re.compile(
            r"(?:\[\d+\] )?[ \t>]*(?:\[rank(?P<rank>\d{1,6})\]:?(?: (?=(?:  )*(?:\S|$)))?)+"
        ),
        always=True,
    ),
    _Prefix(re.compile(r"\[(?:default|trainer|worker)(?P<local>\d{1,4})\]:"), always=True),
    _Prefix(
        re.compile(r"\[(?:[\w.-]*@?\d+,)?(?P<rank>\d{1,6})\](?:\[[^\]]*\])?<std(?:out|err)>:? ?"),
        always=True,
    ),
    _Prefix(re.compile(r" *(?P<rank>\d{1,6}): (?=[\w.-]+:\d+:\d+ |libfabric:)"), always=True),
    _Prefix(
        re.compile(r"\(\w+ (?:rank=(?P<rank>\d+) )?pid=\d+(?:, ip=(?P<node>[\w.:-]+))?\) "),
        always=True,
    ),
    _Prefix(re.compile(r"(?P<node>[\w.-]{1,64} )?r(?P<rank>\d{1,6}) *[|!] "), always=False),
    _Prefix(re.compile(r" *(?P<rank>\d{1,6}): "), always=False),
    _Prefix(re.compile(r"\[(?P<rank>\d{1,6})\] "), always=False),
    _Prefix(re.compile(r"(?P<node>[A-Za-z][\w.-]{0,63}-\d+) +\| "), always=False),
    _Prefix(re.compile(r"(?P<node>[A-Za-z][\w.-]{0,63}): "), always=False),
)
_MOST = 0.6
"""The share of a file's lines from which a prefix that could be text counts as one."""
_WORDS = frozenset(
    {"warning", "error", "info", "debug", "note", "traceback", "srun", "slurmstepd", "jobgen"}
    | {"epoch", "step", "loss"}
)


_FEW = 4
"""Lines that must carry such a prefix at least."""


def choose_prefixes(lines: Sequence[str], *, known: bool) -> list[re.Pattern[str]]:
    """The prefixes that the lines of a file carry; ``known``: whether its rank is known already."""
    filled = [line for line in lines if line.strip() and not line.startswith("srun: ")]
    chosen = [prefix.pattern for prefix in _PREFIXES if prefix.always]
    for prefix in _PREFIXES:
        if prefix.always or known:
            continue
        starts = [match for match in map(prefix.pattern.match, filled) if match]
        nodes = Counter((match.groupdict().get("node") or "").lower() for match in starts)
        named = not _WORDS & set(nodes) and len(nodes) <= max(2, len(starts) // 2)
        if len(starts) >= max(_FEW, _MOST * len(filled)) and named:
            chosen.append(prefix.pattern)
    return chosen


def split_prefix(text: str, prefixes: Sequence[re.Pattern[str]]) -> tuple[Origin, str]:
    """The origin that stands before a line, and the line without it."""
    rank: int | None = None
    node, local = "", False
    local_rank: int | None = None
    left = list(prefixes)
    while match := next((m for m in (p.match(text) for p in left) if m and m[0]), None):
        left.remove(match.re)
        named = match.groupdict()
        number = named.get("rank") or named.get("local")
        local_rank = int(named["local"]) if named.get("local") else local_rank
        if number and (rank is None or local):
            rank, local = int(number), not named.get("rank")
        node = node or (named.get("node") or "").strip()
        text = text[match.end() :]
    return Origin(rank, node, local, None if local else local_rank), text


_HEAD = 120
"""Characters in which the process stands."""
_PLACE = r"(?:[\w./-]+:\d+ (?:\(\w+\) )?)?"
"""Where in its source NCCL, or a plug-in of it, warns."""
_INSIDE: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Origin]], ...] = (
    # the rank in a process group is that of the job in the default one alone
    (re.compile(r"\[PG ID [1-9]\d* "), lambda _: Origin()),
    (
        re.compile(r"\[?\b[Rr]ank[ :]+(\d{1,6})\]?(?: |:|\])"),
        lambda match: Origin(int(match[1])),
    ),
    (
        # a logger's own: [olmo.util:158, rank=6]
        re.compile(r"^\[.{0,80}[\[ ,]rank=(\d{1,6})\] "),
        lambda match: Origin(int(match[1])),
    ),
    (
        re.compile(
            r"(?:Node failure on|Prolog (?:failed|hung) on node"
            r"|[Tt]ask launch for \S+ failed on node) ([\w.-]+)"
        ),
        lambda match: Origin(None, match[1]),
    ),
    (
        re.compile(rf"^\[?([A-Za-z][\w.-]{{0,63}}):\d+:\d+ \[(\d{{1,3}})\] {_PLACE}NCCL"),
        lambda match: Origin(int(match[2]), match[1], local=True),
    ),
    (
        re.compile(rf"^([A-Za-z][\w.-]{{0,63}}):\d+:\d+ (?:\[\d+\] )?{_PLACE}NCCL"),
        lambda match: Origin(None, match[1]),
    ),
    (
        re.compile(
            r"(?:slurmstepd(?:-[\w.-]+)?: error: .*\bON|srun: error:) ([A-Za-z][\w-]*\d[\w.-]*)\b"
        ),
        lambda match: Origin(None, match[1]),
    ),
    (re.compile(r"slurmstepd-([\w.-]+): "), lambda match: Origin(None, match[1])),
)


def read_inside(text: str) -> Origin:
    """The origin that a line names itself: ``[Rank 3]``, ``n02:4711:4890 [1] NCCL WARN``."""
    for pattern, read in _INSIDE:
        if match := pattern.search(text):
            return read(match)
    return Origin()


_PROCESS = re.compile(r"[\w.-]+:\d+(?=:\d+ )")


def read_process(text: str) -> str:
    """The node and process that NCCL names at the begin of its line; empty if there are none."""
    match = _PROCESS.search(text[:_HEAD])
    return match[0] if match else ""


def merge(one: Origin, other: Origin) -> Origin:
    """What is known of both; ``one`` counts first."""
    node = one.node or other.node
    if one.rank is None:
        return Origin(other.rank, node, other.local, other.local_rank)
    if one.local and other.rank is not None and not other.local:
        return Origin(other.rank, node, local_rank=one.rank)
    return Origin(one.rank, node, one.local, one.local_rank)


Origins = Mapping[str, Origin]
