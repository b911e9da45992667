"""Why a job failed: its logs and event record, read once after its end, and kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobgen.errors import JobgenError
from jobgen.model.record import JobState, RunRecord

if TYPE_CHECKING:
    from jobgen.app.world import World
    from jobgen.diagnose import Evidence
    from jobgen.model.record_data import Submission
    from jobgen.transport import Transport

_FAILED = frozenset({JobState.FAILED, JobState.TIMEOUT, JobState.OUT_OF_MEMORY})
"""How jobs end whose logs hold the cause."""
LARGEST = 16 << 20
"""Bytes of logs that are read."""
LEAST, MOST = 2 << 10, 64 << 10
"""Bytes of each log file that are read, from its end."""


def is_unexplained(record: RunRecord) -> bool:
    """Whether the logs of this run should be read for the cause."""
    kept = record.submission.get("cause")
    # the elements of an array start again each by itself
    same = not kept or kept[_START] == record.restarts + 1 or bool(record.elements)
    known = kept is not None and same
    explained = record.exit in _EXPLAINED and not record.failures
    failed = record.ended and record.state in _FAILED and not explained
    return failed and bool(record.directory) and not known


_EXPLAINED = frozenset({"96:0", "97:0", "98:0"})
"""Exit codes that the job's own scripts give, with the reason."""
_START = 6
"""Where a kept cause holds its start."""


def learn_causes(world: World, records: tuple[RunRecord, ...]) -> tuple[RunRecord, ...]:
    """The records, with the causes of those that failed and whose logs can be read."""
    return tuple(_learn(world, record) if is_unexplained(record) else record for record in records)


def _learn(world: World, record: RunRecord) -> RunRecord:
    try:
        with world.connect(record.site.login) as transport:
            return explain(world, transport, record)
    except JobgenError:
        return record


def explain(world: World, transport: Transport, record: RunRecord) -> RunRecord:
    """The record with the cause of its failure, which is kept. Raises Unreachable."""
    from jobgen.diagnose import find_cause

    evidence = _gather(transport, record)
    if evidence is None:
        return record
    cause = find_cause(evidence)
    submission: Submission = {**record.submission, "cause": list(cause) if cause else []}
    return world.ledger.update(record.token, submission=submission)


def _gather(transport: Transport, record: RunRecord) -> Evidence | None:
    """What the newest start left; None if it could not be read whole."""
    from jobgen.diagnose import Evidence, LogText, count_ranks, list_ends, list_finished
    from jobgen.model.events import read_events
    from jobgen.transport.files import read_at, read_tail

    first = next(iter(record.failures), None)
    task = first.task if first and first.task else "0"
    start = first.start if first and record.elements else record.restarts + 1
    restart = f"{start - 1}."
    events = read_tail(transport, f"{record.directory}/state/{task}/events", {}, LARGEST)
    ranks = int(record.shape.get("nodes", 1)) * int(record.shape.get("ranks_per_node", 1))
    backlog = max(LEAST, min(MOST, LARGEST // (2 * ranks + 2)))
    folder = f"{task}/{start - 1}"
    logs = read_tail(transport, f"{record.directory}/logs/{folder}", {}, LARGEST, backlog=backlog)
    if (events.exists and events.unread) or (logs.exists and logs.unread):
        return None
    name = f"job-{record.job}.out"
    own = read_at(transport, f"{record.directory}/logs/{name}", -MOST, MOST)
    tails = {f"{folder}/{chunk.path}": chunk.data for chunk in logs.chunks}
    tails |= {name: own.data} if own is not None else {}
    texts = [c.data.decode("utf-8", "replace") for c in events.chunks if c.path.startswith(restart)]
    rows = read_events("".join(texts))
    return Evidence(
        str(record.state),
        list_ends(rows),
        tuple(
            LogText(path, data.decode("utf-8", "backslashreplace"), 0)
            for path, data in tails.items()
        ),
        start,
        task if record.elements else "",
        max((event.time for event in rows), default=0.0),
        list_finished(rows),
        count_ranks(rows),
    )
