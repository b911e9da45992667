"""The ranks that may have failed first, each with what its logs show and how it ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jobgen.diagnose.clues import Clue, choose_last
from jobgen.diagnose.endings import Ending
from jobgen.diagnose.evidence import Evidence, RankEnd
from jobgen.diagnose.failure_rules import Level, outranks
from jobgen.named_tuple import NamedTuple

KILL_WAIT = 15.0
"""Seconds after the first failure from which a SIGKILL is the launcher's or Slurm's."""
TERM, KILL = 15, 9
_UNCAUGHT = 1
"""Python's exit code after an exception that nothing caught."""
_NONE = 1 << 30


class Suspect(NamedTuple):
    """A rank that may have failed first; or an error of which no rank is known."""

    rank: int | None
    node: str
    seen: Clue | None
    """What ended it, as its logs show."""
    code: int | None = None
    signal: int = 0
    time: float | None = None
    """When it ended."""
    ended: bool = False
    """Whether others ended it: its launcher, or Slurm."""
    why: str = ""
    """Why it ended before the program started."""
    local_rank: int | None = None
    """The rank on its node, where its rank in the job is unknown."""
    first: bool = False
    """Whether its launcher names it as the first failure."""
    order: int = 0
    """The place of the first line that shows its cause."""

    @property
    def level(self) -> Level:
        """What speaks against it."""
        if self.seen is not None:
            return self.seen.level
        if self.why:
            return Level.ROOT
        if self.ended or (self.signal == TERM and not self.first):
            return Level.VICTIM
        # without a record, an exit code alone says less than any line
        return Level.CRASH if self.signal or self.time is not None else Level.SYMPTOM

    @property
    def victim(self) -> bool:
        """Whether it only waited for others, or lost them."""
        return self.level >= Level.HANG


def list_suspects(
    evidence: Evidence, seen: Sequence[Clue], endings: Sequence[Ending]
) -> list[Suspect]:
    """All of them, those that ended first in front."""
    if evidence.ends:
        return _list_recorded(evidence, seen)
    return _list_by_logs(seen, endings)


def _list_recorded(evidence: Evidence, seen: Sequence[Clue]) -> list[Suspect]:
    """By the event record: the ranks that failed, in the order of their ends."""
    suspects = []
    for end in evidence.ends:
        late = end.time - evidence.ends[0].time > KILL_WAIT
        ended = end.signal == TERM or (end.signal == KILL and late)
        error = _find_own(end, seen)
        # of a rank that others ended, an error counts that ended its log
        error = None if ended and error and error.below + error.unsure else error
        suspects.append(
            Suspect(end.rank, end.node, error, end.code, end.signal, end.time, ended, end.why)
        )
    return suspects


def _find_own(end: RankEnd, seen: Sequence[Clue]) -> Clue | None:
    """The error of a rank: in what it wrote to stderr, else in its stdout."""
    own = [
        each
        for each in seen
        if each.known and end.rank is not None
        and (each.origin.rank, each.origin.node) == (end.rank, end.node)
    ]  # fmt: skip
    for stream in (".err", ".out"):
        error = choose_last([each for each in own if each.path.endswith(stream)], end.signal)
        near = error is not None and (not error.survived or end.code == _UNCAUGHT)
        if error is not None and near and (stream == ".err" or not error.below):
            return error
    return None


def _list_by_logs(seen: Sequence[Clue], endings: Sequence[Ending]) -> list[Suspect]:
    """Without a record: by what the logs of each rank show, and what launchers report."""
    groups: dict[tuple[int, str], list[Clue]] = {}
    suspects = []
    for each in seen:
        if each.level >= Level.END or _is_handled(each, endings):
            continue
        origin = each.origin
        if origin.rank is not None and (each.known or not origin.local):
            groups.setdefault((origin.rank, origin.node if origin.local else ""), []).append(each)
        elif each.raised or not each.survived:
            suspects.append(_accuse(each, None, endings))
    for (rank, _), rows in groups.items():
        local = rows[0].origin.local
        signal = next((end.signal for end in endings if end.rank == rank and not local), 0)
        error = choose_last(rows, signal) or max(rows, key=lambda row: row.order)
        accused = _accuse(error, None if local else rank, endings)
        order = min(row.order for row in rows if row.rule.cause == error.rule.cause)
        suspects.append(accused._replace(local_rank=rank if local else None, order=order))
    hung = any(each.level is Level.HANG for each in suspects)
    known = {suspect.rank for suspect in suspects}
    for end in endings:
        # a report that names no rank adds nothing to what the logs show
        if end.rank not in known and (end.rank is not None or not suspects):
            known.add(end.rank)
            suspects.append(_report(end, hung=hung))
    return sorted(suspects, key=_order)


def _is_handled(seen: Clue, endings: Sequence[Ending]) -> bool:
    """Whether a program wrote on after an exception, and ended with a code that is none of one."""
    decisive = [end for end in endings if end.first] or endings
    codes = {(end.code, end.signal) for end in decisive}
    unlike = bool(codes) and not codes & {(0, 0), (_UNCAUGHT, 0)}
    return seen.raised and seen.below > 0 and unlike and not any(signal for _, signal in codes)


def _accuse(seen: Clue, rank: int | None, endings: Sequence[Ending]) -> Suspect:
    end = next((end for end in endings if rank is not None and end.rank == rank), None)
    node = seen.origin.node or (end.node if end else "")
    if end is None:
        return Suspect(rank, node, seen, order=seen.order)
    return Suspect(rank, node, seen, end.code, end.signal, first=end.first, order=seen.order)


def _report(end: Ending, *, hung: bool) -> Suspect:
    """A rank that a launcher reports; where others timed out, it was killed for not ending.

    A launcher sends SIGTERM to others after the first failure, and never to that one.
    """
    ended = (end.signal == TERM and not end.first) or (hung and end.signal == KILL)
    return Suspect(end.rank, end.node, None, end.code, end.signal, ended=ended, first=end.first)


def _order(suspect: Suspect) -> tuple[str, int]:
    seen = suspect.seen
    if seen is None:
        return ("~", _NONE)
    return (seen.path, suspect.order)


def drop_outranked(suspects: Sequence[Suspect], seen: Iterable[Clue]) -> list[Suspect]:
    """Those whose error does not follow from another one that the logs show."""
    credible = [each for each in seen if each.raised or not each.survived]
    return [one for one in suspects if not _is_outranked(one, credible)]


def _is_outranked(suspect: Suspect, credible: Sequence[Clue]) -> bool:
    if suspect.seen is None:
        return False
    own = suspect.seen
    return any(
        outranks(each.rule.cause, own.rule.cause) and _concerns(each, suspect)
        for each in credible
        if each is not own and each.level <= Level.SYMPTOM
    )


def _concerns(seen: Clue, suspect: Suspect) -> bool:
    """Whether what a line shows holds for this rank."""
    if seen.rule.scope == "job":
        return True
    rank, node = seen.origin.rank, seen.origin.node
    if seen.rule.scope == "node" or rank is None or suspect.rank is None:
        return not node or not suspect.node or node == suspect.node
    return rank == suspect.rank or seen.origin.local
