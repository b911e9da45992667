"""What the scheduler answered about the jobs of runs, put together for each run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from jobgen.app.array_submission import describe_unsent
from jobgen.model.chain import find_newest_job, is_over, lacks_chain_jobs, read_chain
from jobgen.model.race import is_undecided
from jobgen.model.record import JobId, JobState
from jobgen.model.sweep_arrays import list_array_jobs, list_jobs, list_missing, read_arrays
from jobgen.scheduler import merge_observations

if TYPE_CHECKING:
    from jobgen.model.observation import Observation
    from jobgen.model.record import RunRecord


class RunAnswers:
    """What was heard of jobs, by their numbers: thousands may be asked about at once."""

    def __init__(self) -> None:
        self._jobs: dict[int, dict[JobId, Observation]] = {}

    def add(self, heard: Mapping[JobId, Observation]) -> None:
        """Take up an answer."""
        for job, seen in heard.items():
            self._jobs.setdefault(job.job, {})[job] = seen

    def of(self, record: RunRecord) -> dict[JobId, Observation]:
        """The tasks and components of a run's job; jobs of others under that id do not count."""
        heard: dict[JobId, Observation] = {}
        for job in list_jobs(record):
            heard |= self._jobs.get(job.job, {})
        return {job: seen for job, seen in heard.items() if seen.belongs_to(record.token)}

    def merge(self, record: RunRecord) -> Observation | None:
        """All tasks and components of a run's job together."""
        if record.job is None:
            return None
        parts: Iterable[Observation] = self.of(record).values()
        if read_chain(record.shape):
            return _choose_start(record, tuple(parts))
        if read_arrays(record.shape) or is_undecided(record):
            first = record.job.job
            parts = [replace(part, job=part.job._replace(job=first)) for part in parts]
        merged = merge_observations(record.job, parts)
        return merged and _complete(record, merged)


def _complete(record: RunRecord, seen: Observation) -> Observation:
    """The observation of a large sweep: it has not ended while some of its arrays are unsent."""
    why = describe_unsent(record) if seen.state.final else ""
    if not why:
        return seen
    refused = "arrays_failed" in record.submission
    state = JobState.FAILED if refused else JobState.PENDING
    return replace(seen, state=state, reason=why)


def _choose_start(record: RunRecord, jobs: Sequence[Observation]) -> Observation | None:
    """What was heard of a chain: of the job that runs, else of the next one that waits, else of the
    one that ran last."""
    newest = find_newest_job(record)
    last = next((seen for seen in jobs if newest and seen.job.job == newest.job), None)
    if is_over(record):
        return last
    live = [seen for seen in jobs if not seen.state.final]
    if live:
        return min(live, key=lambda seen: (seen.state is JobState.PENDING, seen.job.job))
    if last is not None and lacks_chain_jobs(record):
        return replace(last, state=JobState.PENDING, reason="the next job is not submitted yet")
    return last


def get_element_states(
    record: RunRecord, heard: Mapping[JobId, Observation]
) -> dict[str, JobState]:
    """What was heard of each element of an array; under "" of those that have not started."""
    if not record.shape.get("elements"):
        return {}
    if record.shape.get("packed"):
        merged = next((part.state for part in heard.values()), JobState.UNKNOWN)
        return {"": merged if merged.final else JobState.PENDING}
    offsets = {job.job: array.offset for job, array in list_array_jobs(record)}
    states = {
        "" if job.task is None else str(job.task + offsets.get(job.job, 0)): part.state
        for job, part in heard.items()
    }
    if "arrays_failed" not in record.submission:
        return states
    unsent = (str(each) for array in list_missing(record) for each in array.list_elements())
    return dict.fromkeys(unsent, JobState.REJECTED) | states
