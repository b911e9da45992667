"""A fault of the network between two nodes: which two, and which of them if anything shows it.

The node that reports it first is no more to blame than its peer: an adapter reports that the other
side did not answer. One side is singled out by an event of its own adapter, or by several nodes
that lost the same peer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from jobgen.diagnose.clues import Clue
from jobgen.diagnose.describe import describe_clue
from jobgen.diagnose.log_lines import LogLine, ProcessLog
from jobgen.diagnose.origins import merge, read_inside
from jobgen.model.cause import Doubt, FailureCause
from jobgen.named_tuple import NamedTuple
from jobgen.wording import count, join_words

_REPORT = re.compile(
    r"Got completion (?:from peer (?P<peer>[^\s<]+)\S* )?with (?:error|status=) ?(?:\w+\()?"
    r"(?P<status>\d+)(?:.*?\blocalGid (?P<local>[\da-fA-F:.]+))?"
    r"(?:.*?\bremoteGids? ?(?P<remote>[\da-fA-F:.]+))?"
    r"|Call to ibv_modify_qp failed.*?local GID (?P<qp_local>[\da-fA-F:.]+), "
    r"remote GID (?P<qp_remote>[\da-fA-F:.]+)"
    r"|My EFA addr: fi_addr_efa://\[(?P<efa_local>[^\]]*)\]\S* My host id: (?P<own_host>\S+) "
    r"Peer EFA addr: fi_addr_efa://\[(?P<efa>[^\]]*)\]\S* Peer host id: (?P<host>[\w-]+|N/A)"
)
_NEEDLES = ("Got completion", "ibv_modify_qp", "Peer EFA addr")
_FLUSHED = 5
"""The status of what an adapter drops after an earlier error."""
_LOCAL = frozenset({1, 2, 3, 4})
"""Statuses of faults of the side that reports them."""
_EVENT = re.compile(
    r"Got async (?:error )?event ?: (?:port error|local catastrophic error|.*fatal)"
    r"|NET/IB : \S+ async fatal event(?! on (?:QP|CQ|SRQ))"
)
_SILENT = re.compile(r"nresponsive|nreachable|handshake|unknown peer")
"""Of libfabric: the errors of which the peer may be the cause."""
_OWN_ADDRESS = re.compile(
    r"(?:Bootstrap ?: |NET/Socket ?: |OOB )(?:Using )?(?:\[\d+\])?[\w.@-]+:"
    r"(?P<address>[^\s<]+)<\d+>"
)
_BEGIN = re.compile(r"NCCL version|NCCL INFO (?:Bootstrap|NET/|comm )")
"""What NCCL writes when it starts."""
_MANY = 0.6
"""The share of the nodes that lost a peer by which that peer is the one at fault."""


class LostPeer(NamedTuple):
    """One report that a peer on another node did not answer."""

    reporter: str
    """The node that reports it, else its address or rank; empty if unknown."""
    peer: str
    """The other node, else its address; empty if unknown."""
    status: int
    text: str


def describe_network_fault(
    cause: FailureCause, streams: Sequence[ProcessLog], seen: Iterable[Clue]
) -> FailureCause:
    """The cause with the two nodes between which the network failed, or the one at fault."""
    if cause.kind != "network_fault":
        return cause
    events = [each for each in seen if each.rule.cause == cause.kind and _EVENT.search(each.text)]
    if events:
        return _describe_events(cause, events)
    reports = _read_reports(streams)
    remote = [each for each in reports if each.status not in _LOCAL | {_FLUSHED}]
    remote = remote or [each for each in reports if each.status == _FLUSHED]
    own = _REPORT.search(cause.text)
    if not remote or (own and int(own["status"] or 0) in _LOCAL):
        return cause
    begun = any(_BEGIN.search(line.text) for stream in streams for line in stream.lines)
    cause = cause._replace(
        rank=None, local_rank=None, node="", code=None, signal=0, doubt=Doubt.NONE, other="",
        alike=0, all_ranks=False, retry=cause.retry if begun else cause.retry or "yes",
    )  # fmt: skip
    lost = _find_lost(remote)
    return _blame(cause, *lost) if lost else _name_pair(cause, remote)


def _describe_events(cause: FailureCause, events: Sequence[Clue]) -> FailureCause:
    """What the adapters of nodes report of themselves."""
    nodes = list(dict.fromkeys(each.origin.node for each in events))
    cause = describe_clue(events[0], cause._replace(node=""))
    cause = cause._replace(rank=None, code=None, signal=0, doubt=Doubt.NONE, other="", alike=0)
    if len(nodes) < 2:
        return cause._replace(all_ranks=False)
    names = join_words([node or "another node" for node in nodes[:4]], "and")
    says = f"adapters of {names} report events, as when a switch or the whole fabric fails"
    return cause._replace(node="", says=says, retry="yes", all_ranks=False)


def _read_reports(streams: Sequence[ProcessLog]) -> list[LostPeer]:
    """All of them, in the order of the files and lines."""
    lines = [(stream, line) for stream in streams for line in stream.lines]
    owners = _read_addresses(lines)
    matches = [
        (_find_reporter(stream, line, match), match)
        for stream, line in lines
        if any(needle in line.text for needle in _NEEDLES)
        and (match := _REPORT.search(line.text)) is not None
        and not (match["efa"] and not _SILENT.search(line.text))
    ]
    for node, match in matches:
        address = match["local"] or match["qp_local"]
        if address and node and node != _shorten(address):
            owners.setdefault(_shorten(address), node)
    owners |= _infer_owners(matches, owners, lines)
    reports = []
    for named, match in matches:
        reporter = owners.get(named, named)
        peer = next((owners[a] for a in _list_peers(match) if a in owners), "")
        peer = peer or next(iter(_list_peers(match)), "")
        if peer != reporter or not peer:
            reports.append(LostPeer(reporter, peer, int(match["status"] or 12), match.string))
    return reports


def _find_reporter(stream: ProcessLog, line: LogLine, match: re.Match[str]) -> str:
    origin = merge(stream.origin, read_inside(line.text))
    if origin.node:
        return origin.node
    host = match["own_host"] if match["own_host"] != "N/A" else ""
    address = host or match["local"] or match["qp_local"] or match["efa_local"]
    if address:
        return _shorten(address)
    rank = origin.job_rank
    return "" if rank is None else f"the node of rank {rank}"


def _list_peers(match: re.Match[str]) -> list[str]:
    """What a report names its peer by, the best first."""
    host = match["host"] if match["host"] != "N/A" else ""
    names = (host, match["peer"], match["remote"], match["qp_remote"], match["efa"])
    return [_shorten(name) for name in names if name]


def _shorten(address: str) -> str:
    """An address without its interface, and one of IPv4 as such."""
    return address.removeprefix("::ffff:").partition("%")[0]


def _read_addresses(lines: Iterable[tuple[ProcessLog, LogLine]]) -> dict[str, str]:
    """The node of each address that NCCL reports to use itself."""
    owners: dict[str, str] = {}
    for stream, line in lines:
        match = _OWN_ADDRESS.search(line.text) if "Using" in line.text else None
        node = merge(stream.origin, read_inside(line.text)).node if match else ""
        if match and node:
            owners.setdefault(_shorten(match["address"]), node)
    return owners


def _infer_owners(
    matches: Iterable[tuple[str, re.Match[str]]],
    owners: Mapping[str, str],
    lines: Iterable[tuple[ProcessLog, LogLine]],
) -> dict[str, str]:
    """Of two nodes in the logs, the one that an address belongs to: no node loses itself."""
    nodes = {merge(stream.origin, read_inside(line.text)).node for stream, line in lines} - {""}
    if len(nodes) != 2:
        return {}
    accusers: dict[str, set[str]] = {}
    for reporter, match in matches:
        for address in _list_peers(match):
            accusers.setdefault(address, set()).add(reporter)
    return {
        address: (nodes - by).pop()
        for address, by in accusers.items()
        if address not in owners and len(by) == 1 and by < nodes
    }


def _find_lost(reports: Sequence[LostPeer]) -> tuple[str, int] | None:
    """The peer that several nodes lost, and how many did; None if nothing singles one out."""
    accusers: dict[str, set[str]] = {}
    for each in reports:
        if each.peer and each.reporter:
            accusers.setdefault(each.peer, set()).add(each.reporter)
    ranked = sorted(accusers, key=lambda peer: -len(accusers[peer]))
    if not ranked:
        return None
    first, *others = ranked
    many = len(accusers[first])
    everyone = set().union(*accusers.values()) - {first}
    next_best = max((len(accusers[peer]) for peer in others), default=0)
    clear = many > 1 and many > next_best and many >= _MANY * len(everyone)
    return (first, many) if clear else None


def _blame(cause: FailureCause, peer: str, many: int) -> FailureCause:
    says = f"{count(many, 'node')} lost the connection to {peer}"
    named = peer if _is_name(peer) else ""
    return cause._replace(node=named, says=says, retry="other_nodes")


def _is_name(text: str) -> bool:
    return not re.fullmatch(r"[\d.]+|[\da-fA-F]*:[\da-fA-F:.]*|the node .*", text)


def _name_pair(cause: FailureCause, reports: Sequence[LostPeer]) -> FailureCause:
    """The nodes of the first report; where other pairs failed too, what that means."""
    first = next((each for each in reports if each.text.strip() == cause.text), reports[0])
    between = (first.reporter or "the node that reports it", first.peer or "a peer without a name")
    pairs = dict.fromkeys(
        tuple(sorted((each.reporter, each.peer))) for each in reports if each.reporter and each.peer
    )
    says = cause.says
    if len(pairs) > 1:
        shown = join_words([f"{one} and {other}" for one, other in list(pairs)[:3]], "and also")
        says = f"connections failed between {shown}"
    known = first.reporter or first.peer
    return cause._replace(between=between if known else (), says=says)
