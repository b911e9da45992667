"""A chain: one run as several jobs, each of which waits for the one before, and resumes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jobgen.model.record import JobId
from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jobgen.model.record import RunRecord
    from jobgen.model.record_data import Submission

LEAST, MOST = 2, 100
"""Jobs of a chain."""


class ChainJob(NamedTuple):
    """One job of a chain."""

    job: JobId | None = None
    """None if the scheduler has not taken it."""
    failure: str = ""
    """Why the scheduler refused it."""


def read_chain(shape: Mapping[str, Any]) -> int:
    """How many jobs the chain of a run has; 0 of other runs."""
    length = shape.get("chain", 0)
    return length if isinstance(length, int) and LEAST <= length <= MOST else 0


def list_chain(record: RunRecord) -> tuple[ChainJob, ...]:
    """The jobs of a chain, the first one first; none of other runs."""
    length, ids = read_chain(record.shape), record.submission.get("arrays", {})
    if not length:
        return ()
    first = record.submission.get("state", {}).get("job") or (record.job and str(record.job))
    known = {**ids, **({"0": first} if first else {})}
    jobs = {int(number): JobId.parse(job) for number, job in known.items()}
    refused, _, message = str(record.submission.get("arrays_failed", "")).partition(" ")
    failures = {refused: message.strip()}
    return tuple(ChainJob(jobs.get(n), failures.get(str(n), "")) for n in range(length))


def lacks_chain_jobs(record: RunRecord) -> bool:
    """Whether jobs of a chain were neither taken nor refused yet; a refused one is the last."""
    chain = list_chain(record)
    return any(each.job is None for each in chain) and not any(each.failure for each in chain)


def find_first_job(record: RunRecord) -> JobId | None:
    """The job whose id names the log of the batch script: the first one of a chain."""
    chain = list_chain(record)
    return chain[0].job if chain else record.job


def follow_chain(record: RunRecord, newest: JobId | None, *, over: bool) -> RunRecord:
    """The record of a chain whose newest start is that of the job ``newest``; any other run as it
    is. ``over`` is whether its end is known: no other job of the chain runs then."""
    if newest is None or not read_chain(record.shape):
        return record
    submission: Submission = {**record.submission, "chain_job": str(newest), "chain_over": over}
    return record._replace(job=newest, submission=submission)


def find_newest_job(record: RunRecord) -> JobId | None:
    """The job of a chain that started last, or its first one while none has."""
    newest = record.submission.get("chain_job")
    return JobId.parse(newest) if newest else find_first_job(record)


def is_over(record: RunRecord) -> bool:
    """Whether the run of a chain has ended, so that the jobs after its last start do not count."""
    return bool(record.submission.get("chain_over"))
