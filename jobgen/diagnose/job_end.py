"""What ended a job around its ranks: Slurm, its launcher, or jobgen's own scripts before them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from jobgen.diagnose.clues import MOST_LINES, NEAR, Clue, limit
from jobgen.diagnose.describe import describe_clue, read_last
from jobgen.diagnose.evidence import Evidence
from jobgen.diagnose.failure_rules import Level, match_line, outranks
from jobgen.diagnose.log_lines import ProcessLog
from jobgen.diagnose.suspects import TERM
from jobgen.follow.launcher_noise import drop_noise
from jobgen.model.cause import CauseKind, Doubt, FailureCause
from jobgen.model.units import Walltime

_STATES: Mapping[str, CauseKind] = {
    "TIMEOUT": CauseKind.TIME_LIMIT,
    "DEADLINE": CauseKind.TIME_LIMIT,
    "PREEMPTED": CauseKind.PREEMPTED,
    "NODE_FAIL": CauseKind.NODE_FAILURE,
    "BOOT_FAIL": CauseKind.NODE_FAILURE,
    "CANCELLED": CauseKind.CANCELLED,
    "OUT_OF_MEMORY": CauseKind.HOST_MEMORY,
}
_FORCED = frozenset(
    {CauseKind.TIME_LIMIT, CauseKind.PREEMPTED, CauseKind.NODE_FAILURE, CauseKind.CANCELLED}
)
_EARLIER = 60.0
"""Seconds before the end of a job in which what its ranks report may follow from that end."""
SILENT = 1800.0
"""Seconds without a line after which a job that reached its time limit may have hung. PyTorch ends
a collective that hangs after 10 minutes with NCCL, and after 30 with gloo
(``torch/distributed/constants.py``); a program that logs seldom is silent as long."""
_HUNG = (
    "no rank wrote anything in the last {time}, so it may have hung: before you raise the time, "
    "run it again, open jobgen sh while it is silent, and see with py-spy dump where its ranks wait"
)
_OWN = re.compile(r"jobgen: (?P<who>[\w.-]+|rank \S+ on [\w.-]+): (?P<text>.*)")
_SETUP = re.compile(r"(?:setup|stage|before|finally) failed: ")
_ONCE = re.compile(
    r"jobgen: (?:[\w.-]+: )?"
    r"(?P<text>(?:before|finally) failed(?P<command>: .*| with exit code \d+))"
)
"""What became of the commands around the program: the command, then what the batch script says."""
_SUMMARY = re.compile(
    r" (?:first|started), with exit code \d+$|^jobgen: preflight: \d+ of \d+ nodes "
)
"""What the batch script concludes from the ends of the ranks, or the preflight reports."""
_RANKS = 4
_LAST_ERROR = re.compile(r"(?:[\w./-]{1,40}: )?(?:fatal|error): ", re.IGNORECASE)
_LAST = 3
"""Lines at the end of a log among which an error that no rule knows is one."""


def judge(
    evidence: Evidence,
    seen: Sequence[Clue],
    streams: Sequence[ProcessLog],
    ranks: FailureCause | None,
) -> FailureCause | None:
    """The cause, once what is known of the whole job is added to that of its ranks."""
    end = _find_end(evidence, seen)
    if end is not None and not _failed_before(end, ranks, evidence, seen):
        return _describe_end(end, streams, evidence.silent)
    if (ranks is None or evidence.succeeded) and (once := _find_failed_commands(streams)):
        return once  # groups that were stopped at the end have left reports, too
    if evidence.ends and (ranks is None or ranks.rank is None):
        ranks = _judge_job(ranks, seen, streams)
    elif ranks is None or (not evidence.ends and (not ranks.text or ranks.doubt == Doubt.VICTIM)):
        ranks = _find_own_error(streams, "") or ranks
    if ranks is None and not evidence.ends and not evidence.state:
        ranks = _find_last_error(streams)
    return _add_node_error(ranks, evidence, seen) if ranks is not None else None


def _find_end(evidence: Evidence, seen: Sequence[Clue]) -> FailureCause | None:
    """How Slurm ended the job, by its state or by what it wrote."""
    ends = [each for each in reversed(seen) if each.level is Level.END]
    # a line that names the node says more than one that holds for the job
    written = min(ends, key=lambda each: each.rule.scope == "job", default=None)
    kind = _STATES.get(evidence.state)
    if kind in _FORCED:
        same = written is not None and written.rule.cause == kind
        return describe_clue(written) if written and same else FailureCause(kind)
    if written is not None and not evidence.ends and not evidence.state:
        return describe_clue(written)
    return None


def _failed_before(
    end: FailureCause,
    ranks: FailureCause | None,
    evidence: Evidence,
    seen: Sequence[Clue],
) -> bool:
    """Whether a rank failed well before Slurm ended the job."""
    if ranks is None or ranks.doubt == Doubt.VICTIM:
        return False
    if evidence.ends:
        who = [e.time for e in evidence.ends if (e.node, e.rank) == (ranks.node, ranks.rank)]
        return ranks.signal != TERM and min(who, default=evidence.ended) < evidence.ended - _EARLIER
    if outranks(end.kind, ranks.kind):
        return False
    if end.kind == CauseKind.NODE_FAILURE:
        return ranks.kind in ("gpu_fault", "host_memory")
    # the lines of Slurm stand in the order of time in its own file
    if ranks.below > NEAR:
        return False  # the program went on
    place = next((each.order for each in seen if each.text == end.text), None)
    root = next((each for each in seen if each.text == ranks.text and each.path == end.file), None)
    return place is None or root is None or root.order < place


def _describe_end(end: FailureCause, streams: Sequence[ProcessLog], silent: float) -> FailureCause:
    """How Slurm ended the job, with what each of the first ranks wrote last."""
    newest: dict[int, str] = {}
    for stream in streams:
        if stream.rank is not None and not stream.path.endswith(".err"):
            last = read_last(stream, 1)
            if last:
                newest[stream.rank] = f"rank {stream.rank}: {last[0].strip()}"
    lines = tuple(newest[rank] for rank in sorted(newest)[:_RANKS])
    forced = end.kind in (CauseKind.TIME_LIMIT, CauseKind.PREEMPTED)
    if end.kind == CauseKind.TIME_LIMIT and silent >= SILENT:
        end = end._replace(says=_HUNG.format(time=Walltime(int(silent // 60) * 60).human()))
    return end._replace(lines=lines or end.lines, node="" if forced else end.node)


def _judge_job(
    cause: FailureCause | None, seen: Sequence[Clue], streams: Sequence[ProcessLog]
) -> FailureCause | None:
    """What failed before any rank, or around them: jobgen's own lines, then the launcher's."""
    job = [stream for stream in streams if not stream.known]
    reason = cause.text if cause and cause.kind == CauseKind.SETUP and not cause.file else ""
    own = _find_own_error(job, cause.node if cause else "", reason)
    if own is not None:
        end = cause or FailureCause(own.kind)
        return own._replace(node=end.node or own.node, code=end.code, signal=end.signal)
    job_lines = (each for each in seen if not each.known and not each.survived)
    rows = [each for each in job_lines if each.level < Level.END]
    shown = min(rows, key=lambda each: (each.level, not each.raised, each.below), default=None)
    file = job[0].path if job else ""
    if cause and reason:
        above = shown if shown and shown.level < Level.HANG else None
        return _describe_recorded(cause._replace(file=file), above)
    if shown is None or (cause is None and shown.level >= Level.HANG):
        return cause and cause._replace(file=file, lines=read_last(job[0]) if job else ())
    return describe_clue(shown, cause)


def _describe_recorded(cause: FailureCause, above: Clue | None) -> FailureCause:
    """A reason that only the event record has, below what the job's log shows of it.

    srun may drop the last output of a node whose step it ends (``--kill-on-bad-exit``).
    """
    kind = _choose_kind(cause.text, (f"jobgen: {cause.node}: {cause.text}",))
    if above is None:
        return cause._replace(kind=kind)
    lines = (*above.lines, *cause.lines)[-MOST_LINES:]
    return cause._replace(
        kind=kind, lines=lines, file=above.path, below=above.below, line=above.number
    )


def _find_failed_commands(streams: Sequence[ProcessLog]) -> FailureCause | None:
    """The first command of ``before`` or ``finally`` that the job's own log reports as failed."""
    for stream in streams:
        if stream.known:
            continue
        texts = [line.text for line in stream.lines]
        matches = [(at, m) for at, text in enumerate(texts) if (m := _ONCE.match(text))]
        if not matches:
            continue
        at, match = min(matches, key=lambda row: not row[1]["command"].startswith(": "))
        above = drop_noise(texts[max(0, at - MOST_LINES) : at])[-3:]
        lines = limit([text for text in (*above, texts[at]) if text.strip()])
        return FailureCause(
            CauseKind.SETUP, match["text"], file=stream.path, lines=tuple(lines[-MOST_LINES:]),
            below=len(texts) - at - 1, line=stream.lines[at].number,
        )  # fmt: skip
    return None


def _find_last_error(streams: Sequence[ProcessLog]) -> FailureCause | None:
    """What looks like an error in the last lines of a log of which no line shows a cause."""
    for stream in streams:
        written = [line for line in stream.lines if line.text.strip()][-_LAST:]
        for line in reversed(written):
            if _LAST_ERROR.match(line.text):
                lines = tuple(each.text for each in written)
                node, rank = stream.origin.node, stream.rank
                # what mostly follows from another error counts where there is none
                rule = match_line(line.text)
                kind = rule.cause if rule is not None else CauseKind.EXIT_CODE
                return FailureCause(
                    kind, line.text.strip(), node, rank,
                    file=stream.path, lines=lines, line=line.number,
                )  # fmt: skip
    return None


def _find_own_error(
    streams: Sequence[ProcessLog], node: str, reason: str = ""
) -> FailureCause | None:
    """The first failure that jobgen's own scripts report in the job's log: a line of setup, a
    missing launcher, a secret that is not there. With ``reason``, the line that reports this."""
    for stream in streams:
        texts = [line.text for line in stream.lines]
        for at, line in enumerate(stream.lines):
            own = _OWN.match(line.text)
            if own is None or _SUMMARY.search(line.text):
                continue
            if node and own["who"].rpartition(" ")[2] != node:
                continue
            if reason and own["text"].split() != reason.split():
                continue
            before = [text for text in texts[max(0, at - 3) : at] if text.strip()]
            kind = _choose_kind(own["text"], (line.text, *reversed(before)))
            lines, below = limit((*before, line.text))[-MOST_LINES:], len(texts) - at - 1
            who = own["who"] if " " not in own["who"] else ""
            return FailureCause(
                kind, own["text"], who, file=stream.path, lines=lines, below=below, line=line.number
            )
    return None


def _choose_kind(text: str, lines: Iterable[str]) -> str:
    """The kind of a failure that jobgen's own scripts report: of the first line that a rule knows,
    except where it is a command of the job file."""
    rules = (match_line(line) for line in lines)
    own = None if _SETUP.match(text) else next((rule for rule in rules if rule), None)
    return own.cause if own else CauseKind.SETUP


def _add_node_error(cause: FailureCause, evidence: Evidence, seen: Sequence[Clue]) -> FailureCause:
    """What the node or Slurm reports, where the rank's own end follows from it."""
    for each in seen:
        fits = not cause.node or not each.origin.node or cause.node == each.origin.node
        around = each.rule.scope != "rank" and (not each.known or each.rank == cause.rank)
        if around and fits and each.level <= Level.CRASH and outranks(each.rule.cause, cause.kind):
            return describe_clue(each, cause)
    if evidence.state == "OUT_OF_MEMORY" and outranks(CauseKind.HOST_MEMORY, cause.kind):
        return cause._replace(kind=CauseKind.HOST_MEMORY, text="")
    return cause
