"""How sure a cause is, whether a retry helps, what only followed from it, and what it was not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from jobgen.diagnose.clues import Clue
from jobgen.diagnose.evidence import Evidence
from jobgen.diagnose.failure_rules import Level, get_cause
from jobgen.diagnose.log_lines import ProcessLog
from jobgen.diagnose.suspects import KILL, TERM, Suspect
from jobgen.diagnose.waiting import read_collectives
from jobgen.model.cause import CauseKind, Certainty, Doubt, FailureCause
from jobgen.wording import count

_LOCAL = re.compile(r"'?/(?:tmp|local\w*|dev/shm|var|raid|nvme\w*|scratch/local)\b")
"""Folders that are usually a node's own."""
_VAGUE = (CauseKind.SIGNAL, CauseKind.COLLECTIVE_TIMEOUT, "cuda")
"""Causes that are symptoms as well: of memory, of a rank that stayed away, of the hardware."""
_FRAME = re.compile(r"\s*File \"")
_UNSURE = frozenset({Level.SYMPTOM, Level.HANG})


def conclude(
    cause: FailureCause,
    seen: Sequence[Clue],
    suspects: Sequence[Suspect],
    evidence: Evidence,
    streams: Sequence[ProcessLog],
) -> FailureCause:
    """The cause with its certainty, its chance in another try, and what else was seen."""
    if blames := get_cause(cause.kind).blames:
        cause = cause._replace(rank=None, code=None, signal=0)
        cause = cause._replace(node="") if blames == "job" else cause
    if cause.kind == "port" and _is_own_port(cause, suspects):
        cause = cause._replace(rank=None, code=None, signal=0, retry="no")
    return cause._replace(
        certainty=_judge_certainty(cause, seen),
        retry=_judge_retry(cause, suspects, evidence, streams),
        consequences=() if evidence.succeeded else _list_consequences(cause, suspects),
        ruled_out=_rule_out(cause, seen, evidence),
    )


_PROGRESS = re.compile(
    r"\b(?:step|iter|iteration|epoch)\b\W{0,3}\d++(?!\(factor)|\bloss\b\W{1,3}\d"
    r"|\d+%\|[^|]*\| *[1-9]|(?<!\?)\b(?:it|tok(?:en)?s?|samples?)/s\b"
    r"|(?<!\?)s/it\b|SeqNum=(?:[5-9]\d\d|\d{4})",
    re.IGNORECASE,
)
_LOADING = re.compile(
    r"(?:Loading (?:checkpoint shards|safetensors)|Fetching \d+ files|Generating \w+ split"
    r"|(?:Map|Filter|Tokeniz\w+|Running tokenizer|Downloading|Converting)\b[^|]{0,60}): +\d+%"
)
"""Bars of transformers, datasets and huggingface_hub: no training."""


def has_started(streams: Iterable[ProcessLog]) -> bool:
    """Whether some line looks like a step of a training."""
    lines = (line.text for stream in streams for line in stream.lines)
    return any(_PROGRESS.search(line) and not _LOADING.search(line) for line in lines)


def _judge_certainty(cause: FailureCause, seen: Iterable[Clue]) -> Certainty:
    if cause.kind == CauseKind.EXIT_CODE:
        # its last line mostly says why
        return Certainty.LIKELY if cause.text else Certainty.UNCLEAR
    if cause.kind == CauseKind.LOST_PEER:
        return Certainty.UNCLEAR
    level = next((each.level for each in seen if each.text == cause.text), Level.ROOT)
    vague = level in _UNSURE or cause.kind in _VAGUE
    if vague or cause.doubt == Doubt.VICTIM or not cause.text:
        known = cause.kind in (CauseKind.EARLY_EXIT, CauseKind.TIME_LIMIT, CauseKind.NODE_FAILURE)
        return Certainty.SURE if known else Certainty.LIKELY
    return Certainty.SURE


def _judge_retry(
    cause: FailureCause,
    suspects: Sequence[Suspect],
    evidence: Evidence,
    streams: Sequence[ProcessLog],
) -> str:
    """Whether the same job has a fair chance: by its kind, then by whom it concerns."""
    known, started = get_cause(cause.kind), has_started(streams)
    usual = cause.retry or (known.retry_after_steps if started else known.retry)
    if usual == "after_steps":
        usual = "yes" if started else "no"
    if cause.kind == CauseKind.COLLECTIVE_TIMEOUT and not _is_stalled(cause, streams):
        # a rank stayed away, or they did not agree: the program decides what its ranks call
        return "no"
    if cause.kind == CauseKind.SIGNAL and cause.signal == KILL and not started:
        # nobody waits for a program that still loads: the kernel killed it, for lack of memory
        return "no"
    if usual != "no" or not known.one_node or cause.all_ranks:
        return usual
    if cause.kind == "disk_full" and _is_local(cause):
        return "other_nodes"
    return "other_nodes" if _is_one_node(cause, suspects, evidence) else "no"


def _is_stalled(cause: FailureCause, streams: Sequence[ProcessLog]) -> bool:
    """Whether GPUs waited in one collective of NCCL, as a network or a GPU that stalls leaves them.

    All ranks did, or all that report it, and no rank is known to have stayed away. A collective of
    one number is a barrier or a metric, which some rank of the program did not reach.
    """
    if not any("NCCL" in line for line in (cause.text, *cause.lines)):
        return False
    known = read_collectives(streams)
    calls = {(known.sequence[rank], known.operation[rank]) for rank in known.sequence}
    silent = {stream.rank for stream in streams} - {None, *known.sequence, *known.enqueued}
    alike = cause.bad_rank is None and len(known.sequence) > 1 and len(calls) == 1
    return cause.all_ranks or (alike and not silent and "NumelIn=1," not in cause.text)


def _is_own_port(cause: FailureCause, suspects: Iterable[Suspect]) -> bool:
    """Whether several processes of one node report it: they want the port from each other."""
    alike = (each for each in suspects if each.seen and each.seen.rule.cause == cause.kind)
    return bool(cause.node) and sum(each.node == cause.node for each in alike) > 1


def _is_local(cause: FailureCause) -> bool:
    """Whether the error names a folder that is usually a node's own; frames name the program's."""
    shown = (line for line in cause.lines if not _FRAME.match(line))
    return _LOCAL.search(" ".join((cause.text, *shown))) is not None


def _is_one_node(cause: FailureCause, suspects: Sequence[Suspect], evidence: Evidence) -> bool:
    """Whether all ranks of one node report it, and none of another node."""
    ranks = {(each.node, each.rank) for each in suspects}
    ranks |= {(end.node, end.rank) for end in (*evidence.ends, *evidence.finished)}
    alike = {
        (each.node, each.rank)
        for each in suspects
        if each.seen is not None and each.seen.rule.cause == cause.kind
    } | {(end.node, end.rank) for end in evidence.ends if end.why and cause.kind == "setup"}
    alike |= {(cause.node, cause.rank)}
    nodes = {node for node, _ in alike if node}
    if len(nodes) != 1 or len({node for node, _ in ranks if node}) < 2:
        return False
    beside = {who for who in ranks - alike if who[0] in nodes and who[1] is not None}
    return not beside or _is_local(cause)


def _list_consequences(cause: FailureCause, suspects: Sequence[Suspect]) -> tuple[str, ...]:
    others = [each for each in suspects if (each.rank, each.node) != (cause.rank, cause.node)]
    lost = [s for s in others if s.seen is not None and s.seen.rule.cause == CauseKind.LOST_PEER]
    if cause.doubt == Doubt.VICTIM:
        lost = []  # they lost the same peer as the one that is named
    hung = [s for s in others if s.seen is not None and s.level is Level.HANG]
    ended = [s for s in others if s.seen is None and (s.ended or s.signal == TERM)]
    rows = (
        (lost, "lost the connection to it"),
        (hung, "waited for it until a timeout"),
        (ended, "ended by the launcher or by Slurm"),
    )
    return tuple(f"{_count(group)} {what}" for group, what in rows if group)


def _count(group: Sequence[Suspect]) -> str:
    ranks = {each.rank for each in group if each.rank is not None}
    return count(len(ranks), "rank") if ranks else count(len(group), "process", "processes")


def _rule_out(cause: FailureCause, seen: Sequence[Clue], evidence: Evidence) -> tuple[str, ...]:
    """What a person would suspect next, where the evidence speaks against it."""
    causes = {each.rule.cause for each in seen}
    known: list[str] = []
    if evidence.state and cause.kind != CauseKind.HOST_MEMORY and "host_memory" not in causes:
        known += ["host memory (no out-of-memory event)"]
    if evidence.state and evidence.state != "TIMEOUT" and "time_limit" not in causes:
        known += ["the time limit"]
    waited = cause.kind in (CauseKind.LOST_PEER, CauseKind.COLLECTIVE_TIMEOUT)
    if waited and "gpu_fault" not in causes:
        known += ["a GPU fault (no Xid or ECC error in the logs)"]
    return tuple(known)
