"""A suspect or an observation → the cause as a value."""

from __future__ import annotations

import re
from collections.abc import Sequence

from jobgen.diagnose.clues import Clue, limit
from jobgen.diagnose.log_lines import ProcessLog
from jobgen.diagnose.suspects import Suspect
from jobgen.follow.launcher_noise import drop_noise
from jobgen.follow.sanitize import clean
from jobgen.model.cause import CauseKind, FailureCause

LAST = 3
"""Lines that are shown of a log without an error."""
_ERROR = re.compile(r"error|exception|fail|fatal|invalid|cannot|missing|not found", re.IGNORECASE)
_SIGNALLED = {
    4: CauseKind.SEGFAULT,
    6: CauseKind.ABORT,
    7: CauseKind.SHARED_MEMORY,
    8: CauseKind.SEGFAULT,
    11: CauseKind.SEGFAULT,
}


def describe_suspect(suspect: Suspect, streams: Sequence[ProcessLog]) -> FailureCause:
    """Why this rank failed: the lines that show it, else the last that it wrote."""
    kind = CauseKind.SIGNAL if suspect.signal else CauseKind.EXIT_CODE
    kind = _SIGNALLED.get(suspect.signal, kind)
    if suspect.code == 127 and not suspect.signal:
        kind = CauseKind.COMMAND_NOT_FOUND
    cause = FailureCause(kind, "", suspect.node, suspect.rank, suspect.code, suspect.signal)
    if suspect.rank is None:
        cause = cause._replace(local_rank=suspect.local_rank)
    if suspect.why:
        why = clean(suspect.why).replace("\n", " ")
        return cause._replace(kind=CauseKind.SETUP, text=why, lines=limit((why,)))
    if suspect.seen is None:
        return _describe_silent(cause, suspect, streams)
    described = describe_clue(suspect.seen, cause)
    if suspect.seen.rule.scope == "job":
        described = described._replace(rank=None, local_rank=None, node="")
    crashed = suspect.signal and suspect.seen.rule.cause == CauseKind.ABORT
    return described._replace(kind=kind) if crashed else described


def describe_clue(seen: Clue, cause: FailureCause | None = None) -> FailureCause:
    """What a log shows, as a cause; rank, node and end are those of ``cause``."""
    rank = seen.origin.rank if not seen.origin.local or seen.known else None
    cause = cause or FailureCause(seen.rule.cause, node=seen.origin.node, rank=rank)
    return cause._replace(
        kind=seen.rule.cause,
        text=seen.text,
        lines=seen.lines,
        below=seen.below,
        file=seen.path,
        line=seen.number,
        says=seen.rule.says,
        retry=seen.rule.retry,
        title=seen.rule.title,
        node=cause.node or seen.origin.node,
    )


def _describe_silent(
    cause: FailureCause, suspect: Suspect, streams: Sequence[ProcessLog]
) -> FailureCause:
    """A rank that ended without an error: what it wrote last, stderr first."""
    own = [
        stream
        for stream in streams
        if suspect.rank is not None and stream.origin.rank == suspect.rank
        and stream.origin.node in ("", suspect.node)
    ]  # fmt: skip
    written = [(stream, read_last(stream)) for stream in sorted(own, key=_order)]
    file, lines = next(((s.path, lines) for s, lines in written if lines), ("", ()))
    last = lines[-1].strip() if lines and not file.endswith(".out") else ""
    # a program that ends itself mostly says why in its last line
    said = last if cause.kind == CauseKind.EXIT_CODE and _ERROR.search(last) else ""
    return cause._replace(text=said, lines=lines, file=file)


def _order(stream: ProcessLog) -> bool:
    return not re.search(r"err", stream.path.rpartition("/")[2])


def read_last(stream: ProcessLog, count: int = LAST) -> tuple[str, ...]:
    """The last lines of a stream that are not empty, without a launcher's noise."""
    kept = drop_noise(line.text for line in stream.lines[-200:])
    return tuple([line for line in kept if line.strip()][-count:])
