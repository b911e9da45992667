"""Ranks that only waited for others → the rank that they waited for.

Known by sequence numbers of collectives, by who reports nothing, and by who ended with code 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from jobgen.diagnose.clues import Clue
from jobgen.diagnose.evidence import Evidence
from jobgen.diagnose.failure_rules import Level
from jobgen.diagnose.flight_recorder import read_dumps
from jobgen.diagnose.last_lines import list_last_lines, list_silent_lines
from jobgen.diagnose.log_lines import ProcessLog
from jobgen.diagnose.suspects import Suspect
from jobgen.model.cause import CauseKind, Doubt, FailureCause
from jobgen.named_tuple import NamedTuple
from jobgen.wording import name_ranks

_MOST = 4
"""Ranks that are named at most: a rule that accuses more accuses none."""
_SEVERAL = 3
"""Ranks that report a timeout, of which more show that the one between them stayed away."""
_WATCHDOG = re.compile(
    r"\[?[Rr]ank[ :]*(?P<rank>\d+)\]?.*?WorkNCCL\(SeqNum=(?P<seq>\d+), OpType=(?P<op>\w+)"
)
_ENQUEUED = re.compile(
    r"\[?[Rr]ank[ :]*(?P<rank>\d+)\]?.*?last enqueued (?:NCCL )?work: (?P<enqueued>-?\d+), "
    r"last completed (?:NCCL )?work: (?P<completed>-?\d+)"
)
_NAMED = re.compile(
    r"[Rr]anks? (?P<ranks>\d+(?:, ?\d+)*) failed to pass monitoredBarrier"
    r"|\[missing ranks: (?P<missing>\d+(?:, ?\d+)*)\]"
    r"|/task:(?P<silent>\d+) heartbeat timeout\."
)
"""Ranks that a barrier of PyTorch, Horovod, or the coordinator of JAX misses."""
_WORLD = re.compile(
    r"\bnranks (\d+)\b|\brank \d+ of (\d+)\b|\bworld[_ ]size[=: ]+(\d+)"
    r"|nnodes=1\b.*nproc_per_node=(\d+)"
    r"|All distributed processes registered\. Starting with (\d+) processes"
)
_WAITING = frozenset({CauseKind.COLLECTIVE_TIMEOUT, CauseKind.LOST_PEER, "rendezvous"})


class Collectives(NamedTuple):
    """What the watchdogs of ranks report, by rank."""

    sequence: dict[int, int]
    """The number of the collective that timed out."""
    enqueued: dict[int, int]
    """The number of the last collective that the rank began."""
    operation: dict[int, str]


def read_collectives(streams: Iterable[ProcessLog]) -> Collectives:
    """The sequence numbers in the lines of PyTorch's watchdog."""
    known = Collectives({}, {}, {})
    for stream in streams:
        for line in stream.lines:
            if "WorkNCCL(" in line.text and (match := _WATCHDOG.search(line.text)):
                rank = int(match["rank"])
                known.sequence.setdefault(rank, int(match["seq"]))
                known.operation.setdefault(rank, match["op"])
            elif "enqueued" in line.text and (match := _ENQUEUED.search(line.text)):
                known.enqueued.setdefault(int(match["rank"]), int(match["enqueued"]))
    return known


def add_missing(
    cause: FailureCause,
    evidence: Evidence,
    streams: Sequence[ProcessLog],
    suspects: Sequence[Suspect],
    seen: Sequence[Clue],
) -> FailureCause:
    """The cause with the rank that the others waited for, where one is known."""
    if cause.kind not in _WAITING:
        return cause
    if (early := _find_early(cause, evidence)) is not None:
        return _add_last(early, streams)
    hung = cause.kind == CauseKind.COLLECTIVE_TIMEOUT or any(
        each.seen is not None and each.seen.rule.cause == CauseKind.COLLECTIVE_TIMEOUT
        for each in suspects
    )
    missing, says = _find_missing(evidence, streams, suspects, seen)
    named = cause.rank is None and missing and missing == _find_named(streams)
    if cause.kind == CauseKind.LOST_PEER and not hung and not named:
        left = _find_left(evidence, streams, suspects, seen)
        if left is not None:
            return _add_last(_describe_early(cause, left, ""), streams)
        return cause._replace(last_lines=list_silent_lines(streams, seen, by_file=False))
    if not missing:
        blamed = cause.kind != "rendezvous" and cause.doubt == Doubt.NONE
        by_file = cause.kind == "rendezvous"
        silent = list_silent_lines(streams, seen, by_file=by_file)
        cause = cause._replace(last_lines=silent)
        return cause if blamed else cause._replace(doubt=Doubt.VICTIM)
    kind = CauseKind.COLLECTIVE_TIMEOUT if hung else cause.kind
    node = next((s.node for s in suspects if s.rank == missing[0] and s.node), "")
    node = node or next((s.origin.node for s in streams if s.rank == missing[0]), "")
    names = name_ranks(missing)
    says = says or f"{names} did not join and reported no error"
    ends = ((s.code, s.signal) for s in suspects if s.rank == missing[0])
    code, signal = next(ends, (None, 0))
    return cause._replace(
        kind=kind, rank=missing[0], node=node, code=code, signal=signal, says=says,
        doubt=Doubt.NONE, other="", alike=0, all_ranks=False,
        last_lines=list_last_lines(missing, streams, {s.rank: s.node for s in suspects}),
    )  # fmt: skip


def _add_last(cause: FailureCause, streams: Sequence[ProcessLog]) -> FailureCause:
    ranks = () if cause.rank is None else (cause.rank,)
    nodes = {cause.rank: cause.node}
    return cause._replace(last_lines=list_last_lines(ranks, streams, nodes))


def _find_early(cause: FailureCause, evidence: Evidence) -> FailureCause | None:
    """A rank that ended with code 0 before the others lost it."""
    failed = min((end.time for end in evidence.ends), default=0.0)
    early = [end for end in evidence.finished if not failed or end.time <= failed]
    if early and evidence.ends:
        first = early[0]
        return _describe_early(cause, first.rank, first.node)
    return None


def _describe_early(cause: FailureCause, rank: int | None, node: str) -> FailureCause:
    says = f"rank {rank} ended with exit code 0 while others waited for it"
    return cause._replace(
        kind=CauseKind.EARLY_EXIT, rank=rank, node=node, code=0, signal=0, says=says,
        doubt=Doubt.NONE, other="", alike=0, all_ranks=False,
    )  # fmt: skip


def _find_left(
    evidence: Evidence,
    streams: Sequence[ProcessLog],
    suspects: Sequence[Suspect],
    seen: Sequence[Clue],
) -> int | None:
    """Of logs without a record, the one rank that no launcher reports and that shows no error."""
    accused = {suspect.rank for suspect in suspects} | {clue.rank for clue in seen}
    left = set(range(_count_world(streams))) - accused
    return left.pop() if len(left) == 1 and not evidence.ends and len(accused) > 1 else None


def _find_missing(
    evidence: Evidence,
    streams: Sequence[ProcessLog],
    suspects: Sequence[Suspect],
    seen: Sequence[Clue],
) -> tuple[list[int], str]:
    """The ranks that did not join, and how that is known."""
    named = _find_named(streams)
    if named is not None:
        return (named, "") if len(named) <= _MOST else ([], "")
    known = read_collectives(streams)
    for rank, last in read_dumps(evidence.dumps).items():
        known.enqueued[rank] = last.number
        known.operation.setdefault(rank, last.operation)
    world = evidence.world or _count_world(streams)
    reported = {*known.sequence, *known.enqueued}
    silent = sorted(set(range(world)) - reported)
    if len(reported) > 1 and 0 < len(silent) <= _MOST:
        return silent, _say(silent, known)
    if not world and (gap := _find_gap(known.sequence)):
        return gap, _say(gap, known)
    if behind := _find_behind(known):
        return behind, _say(behind, known)
    quiet = [] if reported else _find_quiet(evidence, streams, suspects, seen, world)
    return (quiet, "") if len(quiet) <= _MOST else ([], "")


def _find_named(streams: Sequence[ProcessLog]) -> list[int] | None:
    """The ranks that a monitored barrier, or Horovod, names."""
    lines = (line.text for stream in streams for line in stream.lines)
    match = next((m for m in map(_NAMED.search, lines) if m), None)
    ranks = match and (match["ranks"] or match["missing"] or match["silent"])
    return [int(number) for number in ranks.split(",")] if ranks else None


def _find_quiet(
    evidence: Evidence,
    streams: Sequence[ProcessLog],
    suspects: Sequence[Suspect],
    seen: Sequence[Clue],
    world: int,
) -> list[int]:
    """The ranks that report no error, while others waited."""
    waited = {clue.rank for clue in seen if clue.level >= Level.HANG}
    silent = (s.rank for s in suspects if s.ended and s.seen is None)
    quiet = [rank for rank in silent if rank is not None and rank not in waited]
    if quiet:
        return sorted(quiet)
    accused = {s.rank for s in suspects}
    written = {s.rank for s in streams if s.rank is not None}
    ranks = written if evidence.ends or not world else set(range(world))
    return sorted(rank for rank in ranks - accused if rank is not None) if accused else []


def _find_gap(sequence: Mapping[int, int]) -> list[int]:
    """The one rank that is missing below the highest of many that timed out in one collective,
    where no line says how many ranks there are."""
    if len(sequence) < _SEVERAL or len(set(sequence.values())) > 1:
        return []
    gap = sorted(set(range(max(sequence))) - set(sequence))
    sure = len(sequence) > _SEVERAL or gap == [0]  # rank 0 has work that the others do not have
    return gap if len(gap) == 1 and sure else []


def _find_behind(known: Collectives) -> list[int]:
    """The few ranks whose last collective is older than that of the others."""
    for numbers in (known.enqueued, known.sequence):
        newest = max(numbers.values(), default=0)
        behind = sorted(rank for rank, number in numbers.items() if number < newest)
        if behind and len(behind) <= min(_MOST, len(numbers) // 2):
            return behind
    return []


def _say(ranks: Sequence[int], known: Collectives) -> str:
    numbers = {**known.enqueued, **known.sequence}
    number = max(numbers.values())
    operation = next((known.operation.get(r, "") for r, n in numbers.items() if n == number), "")
    named = f" ({operation})" if operation else ""
    return f"{name_ranks(ranks)} did not join collective {number}{named}"


def _count_world(streams: Iterable[ProcessLog]) -> int:
    """The number of ranks, by what the logs say of it; else by the ranks that wrote."""
    stated = 0
    for stream in streams:
        for line in stream.lines:
            if match := _WORLD.search(line.text):
                stated = max(stated, *(int(number) for number in match.groups() if number))
    return stated
