"""Which rank failed first, and why: its own error goes before that of a rank that lost its peers.

The order is that of the times at which ``rank.sh`` recorded the ends. A rank that was ended by
SIGTERM, or killed half a minute after another had failed, was ended by its launcher.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from jobgen.diagnose.evidence import Evidence, RankEnd
from jobgen.diagnose.log_errors import (
    NEAR,
    LogError,
    find_error,
    find_own_error,
    read_last_lines,
    read_lines,
)
from jobgen.follow.sanitize import clean
from jobgen.follow.source import LogSource, parse_source
from jobgen.model.cause import CauseKind, Doubt, FailureCause
from jobgen.named_tuple import NamedTuple

_KILL_WAIT = 15.0
"""Seconds after the first failure from which a SIGKILL is the launcher's or Slurm's."""
_ERROR = re.compile(r"error|exception|fail|fatal|invalid|cannot|missing|not found", re.IGNORECASE)
_TERM, _KILL = 15, 9
_OOM = re.compile(r"oom[-_]kill|Out Of Memory")
_UNCAUGHT = 1
"""Python's exit code after an exception that nothing caught."""
_LAST = 3
"""Lines that are shown of a log without an error."""
_RANKS = 4
"""Ranks that are named: of which the last line is shown, or which may have hung."""
_SIGNALLED = {6: CauseKind.ABORT, 9: CauseKind.KILLED, 11: CauseKind.SEGFAULT}

Logs = Mapping[str, Sequence[str]]


class _Suspect(NamedTuple):
    """A rank that may have failed first."""

    end: RankEnd
    error: LogError | None
    file: str
    ended: bool
    """Whether others ended it: its launcher, or Slurm."""

    @property
    def victim(self) -> bool:
        if self.error is not None and self.error.victim:
            return True
        return self.ended and self.error is None


def find_cause(evidence: Evidence) -> FailureCause | None:
    """The first failure, by all that is known; None if nothing is."""
    logs = {path: read_lines(tail) for path, tail in evidence.tails.items()}
    cause = _judge_ranks(evidence, logs)
    job = next((path for path in logs if _is_job(path)), "")
    if evidence.state == "TIMEOUT" and not _failed_before_end(cause, evidence):
        cause = _describe_limit(logs)
    elif cause is None or cause.rank is None:
        cause = _judge_job(cause, job, logs.get(job, ()))
    if cause is not None:
        cause = _add_memory(cause, evidence, logs.get(job, ()))
        return cause._replace(start=evidence.start, task=evidence.task)
    return None


def _is_job(path: str) -> bool:
    source = parse_source(path)
    return source is not None and source.stream == "job"


def _failed_before_end(cause: FailureCause | None, evidence: Evidence) -> bool:
    """Whether a rank failed well before the time limit ended the job."""
    if cause is None or not evidence.ended:
        return False
    times = [end.time for end in evidence.ends if (end.node, end.rank) == (cause.node, cause.rank)]
    return cause.signal != _TERM and min(times, default=evidence.ended) < evidence.ended - 60


def _judge_ranks(evidence: Evidence, logs: Logs) -> FailureCause | None:
    suspects = _list_suspects(evidence, logs)
    if not suspects:
        return None
    own = [each for each in suspects if not each.victim]
    # a rank that nothing ended itself comes before one that only its log accuses
    chosen = (own or [each for each in suspects if not each.ended] or suspects)[0]
    cause = _describe(chosen, logs)
    alike = [each for each in suspects if each.error and each.error.text == cause.text]
    cause = cause._replace(alike=max(len(alike) - 1, 0))
    if not own:
        return cause._replace(doubt=Doubt.VICTIM, other=_list_silent(suspects))
    first = next((each for each in suspects if not each.ended), chosen)
    if first is not chosen:
        return cause._replace(doubt=Doubt.LATER, other=f"rank {first.end.rank}")
    return cause


def _list_silent(suspects: Sequence[_Suspect]) -> str:
    """The few ranks that were ended by others and report nothing: those may have hung."""
    silent = [str(each.end.rank) for each in suspects if each.ended and each.error is None]
    if not 0 < len(silent) <= _RANKS:
        return ""
    return f"rank{'s' if len(silent) > 1 else ''} {', '.join(silent)}"


def _list_suspects(evidence: Evidence, logs: Logs) -> list[_Suspect]:
    suspects = []
    for end in evidence.ends:
        file, error = _find_in_rank(end, logs)
        late = end.time - evidence.ends[0].time > _KILL_WAIT
        ended = end.signal == _TERM or (end.signal == _KILL and late)
        # of a rank that others ended, an error counts that ended its log
        error = None if ended and error and error.below + error.unsure else error
        suspects.append(_Suspect(end, error, file, ended))
    return suspects


def _find_in_rank(end: RankEnd, logs: Logs) -> tuple[str, LogError | None]:
    """The error of a rank: in what it wrote to stderr, else in its stdout."""
    files: dict[str, str] = {}
    for path in logs:
        source = parse_source(path)
        if source and _is_of(source, end):
            files[source.stream] = path
    for stream in ("err", "out"):
        error = find_error(logs[files[stream]], end.signal) if stream in files else None
        near = error is not None and (error.below <= NEAR or end.code == _UNCAUGHT)
        if error is not None and near and (stream == "err" or not error.below):
            return files[stream], error
    written = [files[name] for name in ("err", "out") if name in files and logs[files[name]]]
    return (written[0] if written else ""), None


def _is_of(source: LogSource, end: RankEnd) -> bool:
    return end.rank is not None and (source.node, source.rank) == (end.node, end.rank)


def _describe(suspect: _Suspect, logs: Logs) -> FailureCause:
    end, error = suspect.end, suspect.error
    kind = _SIGNALLED.get(end.signal, CauseKind.EXIT_CODE)
    if end.code == 127 and not end.signal:
        kind = CauseKind.COMMAND_NOT_FOUND
    cause = FailureCause(kind, "", end.node, end.rank, end.code, end.signal, file=suspect.file)
    if end.why:
        why = clean(end.why).replace("\n", " ")
        return cause._replace(kind=CauseKind.SETUP, text=why, lines=(why,))
    if error is None:
        lines = read_last_lines(logs.get(suspect.file, ()), _LAST)
        last = lines[-1].strip() if lines and suspect.file.endswith(".err") else ""
        # a program that ends itself mostly says why in its last line
        said = last if kind is CauseKind.EXIT_CODE and _ERROR.search(last) else ""
        return cause._replace(text=said, lines=lines)
    kind = kind if end.signal and error.kind is CauseKind.ABORT else error.kind
    return cause._replace(kind=kind, text=error.text, lines=error.lines, below=error.below)


def _judge_job(cause: FailureCause | None, file: str, lines: Sequence[str]) -> FailureCause | None:
    """What failed before any rank, or around them: jobgen's own lines, then the launcher's."""
    error = find_own_error(lines, cause.node if cause else "") or find_error(lines)
    if error is None or (cause is None and error.victim):
        return cause and cause._replace(file=file, lines=read_last_lines(lines, _LAST))
    cause = cause or FailureCause(error.kind)
    return cause._replace(
        kind=error.kind, text=error.text, lines=error.lines, below=error.below, file=file
    )


def _describe_limit(logs: Logs) -> FailureCause:
    """The time limit: what each of the first ranks wrote last."""
    newest: dict[int, str] = {}
    for path, lines in sorted(logs.items()):
        source = parse_source(path)
        if source and source.rank is not None and source.stream == "out" and lines:
            newest[source.rank] = f"rank {source.rank}: {lines[-1].strip()}"
    return FailureCause(
        CauseKind.TIME_LIMIT, lines=tuple(newest[r] for r in sorted(newest)[:_RANKS])
    )


def _add_memory(cause: FailureCause, evidence: Evidence, lines: Sequence[str]) -> FailureCause:
    """A rank that was killed where Slurm reports that it ran out of memory."""
    error = find_error([line for line in lines if _OOM.search(line)])
    reported = error is not None and error.kind is CauseKind.HOST_MEMORY
    if cause.kind != CauseKind.KILLED or not (reported or evidence.state == "OUT_OF_MEMORY"):
        return cause
    text = error.text if error is not None else ""
    return cause._replace(kind=CauseKind.HOST_MEMORY, text=text)
