"""Which rank failed first, and why: its own error goes before that of a rank that lost its peers.

The order is that of the times at which ``rank.sh`` recorded the ends; in logs without a record,
that of a launcher's own report, then of the lines. A rank that was ended by SIGTERM, or killed half
a minute after another had failed, was ended by its launcher.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from jobgen.diagnose import job_end, waiting
from jobgen.diagnose.allocator_message import explain_memory
from jobgen.diagnose.arrivals import add_never_started
from jobgen.diagnose.clues import Clue, find_clues
from jobgen.diagnose.conclusion import conclude, has_started
from jobgen.diagnose.describe import describe_suspect
from jobgen.diagnose.endings import Ending, has_closed, list_endings
from jobgen.diagnose.evidence import Evidence
from jobgen.diagnose.failure_rules import BARE, UNCAUGHT, Level, outranks
from jobgen.diagnose.local_ranks import resolve_local_ranks
from jobgen.diagnose.log_lines import ProcessLog, read_streams
from jobgen.diagnose.mismatches import describe_mismatch, find_mixed_calls
from jobgen.diagnose.network_faults import describe_network_fault
from jobgen.diagnose.origins import read_process
from jobgen.diagnose.recovery import has_gone_on
from jobgen.diagnose.suspects import TERM, Suspect, drop_outranked, list_suspects
from jobgen.model.cause import Doubt, FailureCause
from jobgen.named_tuple import NamedTuple

_APART = 5.0
"""Seconds between two ends from which the clocks of nodes cannot have changed their order."""
_TOGETHER = 3.0
"""Seconds within which ranks are killed for one reason; launchers give the others more time."""
_RANKS = 4
"""Ranks that are named as those that may have hung."""


class Case(NamedTuple):
    """All that is known of a failed job, read once."""

    evidence: Evidence
    streams: Sequence[ProcessLog]
    seen: Sequence[Clue]
    endings: Sequence[Ending]
    suspects: Sequence[Suspect]


def read_case(evidence: Evidence) -> Case:
    """The logs of a job, read."""
    streams = resolve_local_ranks(read_streams(evidence.logs))
    seen = find_clues(streams)
    endings = list_endings(streams)
    return Case(evidence, streams, seen, endings, list_suspects(evidence, seen, endings))


def find_cause(evidence: Evidence) -> FailureCause | None:
    """The first failure, by all that is known; None if nothing shows one."""
    if evidence.state == "COMPLETED":
        return None  # what its logs report, it survived
    case = read_case(evidence)
    if not evidence.state and not evidence.ends and _has_ended_well(case):
        return None
    ranks = _judge_ranks(case)
    cause = job_end.judge(case.evidence, case.seen, case.streams, ranks)
    if cause is None:
        return None
    cause = waiting.add_missing(cause, evidence, case.streams, case.suspects, case.seen)
    cause = add_never_started(cause, evidence, case.streams)
    cause = describe_mismatch(cause, case.streams)
    cause = find_mixed_calls(cause, case.streams)
    cause = describe_network_fault(cause, case.streams, case.seen)
    cause = explain_memory(cause, case.streams)
    cause = conclude(cause, case.seen, case.suspects, evidence, case.streams)
    return cause._replace(start=evidence.start, task=evidence.task)


def _has_ended_well(case: Case) -> bool:
    """Whether all ranks ended with exit code 0, or at least went on after every error."""
    if case.evidence.finished:
        return 0 < case.evidence.world <= len(case.evidence.finished)
    return has_gone_on(case.streams, case.seen, case.endings)


def _judge_ranks(case: Case) -> FailureCause | None:
    """The rank that failed first, with what it shows; None if no rank is known to have failed."""
    suspects = drop_outranked(case.suspects, case.seen) or list(case.suspects)
    if not suspects:
        return None
    own = [each for each in suspects if not each.victim]
    recorded = bool(case.evidence.ends)
    # a rank that nothing ended itself comes before one that only its log accuses
    pool = own or [each for each in suspects if not each.ended] or suspects
    chosen = pool[0] if recorded else min(pool, key=_weigh)
    chosen = _prefer_root(chosen, own) if recorded else chosen
    alike, every = _count_alike(chosen, case)
    cause = describe_suspect(chosen if every else _name_rank(chosen, case), case.streams)
    cause = cause._replace(alike=max(alike - 1, 0), all_ranks=every)
    if not own:
        return cause._replace(doubt=Doubt.VICTIM, other=_list_silent(suspects))
    first = next((each for each in case.suspects if not each.ended), chosen)
    if recorded and first is not chosen and first.victim:
        return cause._replace(doubt=Doubt.LATER, other=f"rank {first.rank}")
    return cause


def _weigh(suspect: Suspect) -> tuple[int, bool, bool, bool, float]:
    """Without a record: what states a cause first, then whom a launcher names, then the order."""
    seen = suspect.seen
    level = int(suspect.level)
    if seen is None and suspect.first:
        level = int(Level.CRASH)  # it says nothing, but ended before all others
    time = seen.time if seen is not None and seen.time is not None else 0.0
    # a report without a line of the process says less than what a log shows
    return (level, seen is not None and seen.survived, not suspect.first, seen is None, time)


def _prefer_root(chosen: Suspect, own: Sequence[Suspect]) -> Suspect:
    """A rank whose error explains the symptom of the one that ended before it."""
    if chosen.level is not Level.SYMPTOM or chosen.seen is None:
        return chosen
    cause = chosen.seen.rule.cause
    roots = (each for each in own if each.seen and each.level is Level.ROOT)
    explain = (each for each in roots if each.seen and outranks(each.seen.rule.cause, cause))
    return next(explain, chosen)


def _name_rank(chosen: Suspect, case: Case) -> Suspect:
    """The rank of an error of which the lines tell none: that which the launcher names first."""
    if chosen.rank is not None or chosen.victim or case.evidence.ends:
        return chosen
    if chosen.seen is not None and chosen.seen.rule.cause == "network_fault":
        return chosen  # it lies between nodes: the first to end is no more to blame
    if (only := _find_only_rank(chosen, case)) is not None:
        return chosen._replace(rank=only)
    crashed = [end for end in case.endings if end.rank is not None and end.node == chosen.node]
    crashed = [end for end in crashed if end.signal not in (0, TERM)]
    if chosen.node and len(crashed) == 1:
        end = crashed[0]
        return chosen._replace(rank=end.rank, code=end.code, signal=end.signal)
    firsts = [end for end in case.endings if end.first]
    clear = len(firsts) == 1 or (firsts and firsts[1].time - firsts[0].time > _APART)
    first = firsts[0] if clear else None
    failed = [end for end in case.endings if end.rank is not None and end.signal != TERM]
    if first is None and len(failed) == 1:
        first = failed[0]
    if first is None or first.signal == TERM:
        return chosen
    return chosen._replace(
        rank=first.rank, node=chosen.node or first.node, code=first.code, signal=first.signal
    )


def _find_only_rank(chosen: Suspect, case: Case) -> int | None:
    """Where lines name a GPU of a node, or an error names nothing: the one rank that reports the
    same cause itself; of an error without a traceback, in the same words."""
    if chosen.seen is None:
        return None
    kind = chosen.seen.rule.cause
    alike = [s for s in case.suspects if s.rank is None and s.seen and s.seen.rule.cause == kind]
    alone = not chosen.node and len(alike) == 1
    if not chosen.seen.origin.local and not alone:
        return None
    own = [s for s in case.suspects if s.rank is not None and s.seen is not None and not s.victim]
    if not chosen.seen.origin.local and not chosen.seen.raised:
        own = [each for each in own if each.seen and chosen.seen.text in each.seen.text]
    ranks = {each.rank for each in own if each.seen and each.seen.rule.cause == kind}
    return ranks.pop() if len(ranks) == 1 else None


_DIGITS = re.compile(r"0x[0-9a-f]+|\d+")


def _is_alike(one: Clue, other: Clue) -> bool:
    """Whether both show the same error, but for numbers; of two ranks, by the same rule."""
    ranked = one.origin.rank is not None and other.origin.rank is not None
    if ranked and one.rule is other.rule and one.rule not in (UNCAUGHT, BARE):
        return True
    if one.rule.cause != other.rule.cause:
        return False
    return _DIGITS.sub("", one.text) == _DIGITS.sub("", other.text)


def _count_alike(chosen: Suspect, case: Case) -> tuple[int, bool]:
    """How many ranks report the error of ``chosen``, and whether all do; errors of unknown ranks
    count each."""
    if chosen.seen is None:
        return _count_alike_ends(chosen, case)
    ended = [clue for clue in case.seen if clue.raised or not clue.survived]
    alike = [clue for clue in ended if _is_alike(clue, chosen.seen)]
    ranks = {
        clue.origin.rank for clue in alike if clue.origin.rank is not None and not clue.origin.local
    }
    unknown = _count_unknown(
        [clue for clue in alike if clue.origin.rank is None or clue.origin.local]
    )
    known = {suspect.rank for suspect in case.suspects}
    known |= {each.origin.rank for each in case.streams if not each.origin.local}
    world = case.evidence.world or _count_world(known - {None}, case.streams)
    if ranks:
        return len(ranks), len(ranks) > 1 and len(ranks) >= world
    others = [s for s in case.suspects if s.seen is not None and not _is_alike(s.seen, chosen.seen)]
    if unknown <= sum(end.rank is not None for end in case.endings) and has_closed(case.streams):
        return unknown, False
    if unknown > 1 and not others:
        return unknown, True
    causes = {s.seen.rule.cause for s in others if s.seen is not None}
    if _have_all_failed(case.endings) and causes <= {chosen.seen.rule.cause}:
        return unknown, True
    failed = {end.rank for end in case.endings if end.rank is not None and end.signal != TERM}
    terminated = any(end.signal == TERM for end in case.endings)
    # ranks that a launcher did not end, and of which none lost a peer, failed each by itself
    lost = any(Level.HANG <= clue.level < Level.END for clue in case.seen)
    alone = not lost and not terminated
    return unknown, len(failed) > 1 and (unknown == len(failed) or alone)


def _count_world(known: Collection[int | None], streams: Sequence[ProcessLog]) -> int:
    """How many ranks there are of which these are known.

    Once the training has run, those between them ran as well and report nothing. Before that the
    logs may be an excerpt of what all report.
    """
    ranks = [rank for rank in known if rank is not None]
    return max(ranks) - min(ranks) + 1 if ranks and has_started(streams) else len(ranks)


def _count_unknown(alike: Sequence[Clue]) -> int:
    """How many processes report an error of which no rank is known; those that NCCL names count
    once."""
    processes = [read_process(clue.text) for clue in alike]
    return len({name for name in processes if name}) + processes.count("")


def _count_alike_ends(chosen: Suspect, case: Case) -> tuple[int, bool]:
    """How many ranks ended by the signal that ended ``chosen``, and whether all did."""
    alike = [
        each
        for each in case.suspects
        if each.seen is None and each.signal == chosen.signal
        and abs((each.time or 0.0) - (chosen.time or 0.0)) < _TOGETHER
    ]  # fmt: skip
    every = chosen.signal != 0 and len(alike) > 1 and len(alike) == len(case.suspects)
    if every and not _has_first_of_terminated(case.endings):
        return len(alike), True
    return 1, _have_all_failed(case.endings)


def _have_all_failed(endings: Sequence[Ending]) -> bool:
    """Whether launchers report the same end of every rank."""
    ranked = [end for end in endings if end.rank is not None]
    ranks = {end.rank for end in ranked}
    alike = len({(end.code, end.signal) for end in ranked}) == 1
    # srun does not say which of them ended first
    known = any(end.first for end in ranked) and ranks != set(range(len(ranks)))
    known = known or _has_first_of_terminated(ranked)
    return alike and len(ranks) > 1 and not known


def _has_first_of_terminated(endings: Iterable[Ending]) -> bool:
    """Whether a launcher names a rank that SIGTERM ended as the first: it ended the others."""
    return any(end.first and end.signal == TERM and end.rank is not None for end in endings)


def _list_silent(suspects: Sequence[Suspect]) -> str:
    """The few ranks that were ended by others and report nothing: those may have hung."""
    silent = [str(each.rank) for each in suspects if each.ended and each.seen is None]
    if not 0 < len(silent) <= _RANKS:
        return ""
    return f"rank{'s' if len(silent) > 1 else ''} {', '.join(silent)}"
