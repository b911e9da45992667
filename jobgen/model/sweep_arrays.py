"""A sweep with more elements than one job array may have, as several arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jobgen.model.array import fold_indexes, read_indexes
from jobgen.model.chain import list_chain
from jobgen.model.race import is_undecided, list_entries
from jobgen.model.record import JobId
from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jobgen.model.record import RunRecord


class SweepArray(NamedTuple):
    """One job array of a sweep."""

    offset: int
    """What its indexes count from: element 1003 is index 3 of the array with offset 1000."""
    indexes: str
    """Its own indexes, as ``sbatch --array`` takes them."""

    def list_elements(self) -> tuple[int, ...]:
        """The elements of the sweep that run in this array."""
        indexes = self.indexes.partition("%")[0]
        return tuple(index + self.offset for index in read_indexes(indexes))


def split_sweep(indexes: str, size: int) -> tuple[SweepArray, ...]:
    """The arrays for these indexes of a sweep, where an index of an array is below ``size``.

    >>> split_sweep("0-2,9%2", 5)
    (SweepArray(offset=0, indexes='0-2%2'), SweepArray(offset=5, indexes='4%2'))
    """
    elements, percent, limit = indexes.partition("%")
    groups: dict[int, list[int]] = {}
    for index in read_indexes(elements):
        groups.setdefault(index // size, []).append(index % size)
    return tuple(
        SweepArray(number * size, fold_indexes(group) + percent + limit)
        for number, group in groups.items()
    )


def read_arrays(shape: Mapping[str, Any]) -> tuple[SweepArray, ...]:
    """The arrays of a run whose sweep does not fit one with its own indexes; else none."""
    return tuple(SweepArray(int(o), str(i)) for o, i in shape.get("arrays", ()))


def list_array_jobs(record: RunRecord) -> tuple[tuple[JobId, SweepArray], ...]:
    """The job and the elements of each array that the scheduler took, the first one first."""
    if record.job is None:
        return ()
    arrays = read_arrays(record.shape)
    ids = {"0": str(record.job), **record.submission.get("arrays", {})}
    known = ((ids.get(str(number)), array) for number, array in enumerate(arrays))
    return tuple((JobId.parse(job), array) for job, array in known if job)


def list_jobs(record: RunRecord) -> tuple[JobId, ...]:
    """The ids of a run: one, or that of each array of a large sweep, of each job of a chain, or of
    each job of a race that none has won yet."""
    jobs = tuple(job for job, _ in list_array_jobs(record))
    if is_undecided(record):
        jobs = tuple(entry.job for entry in list_entries(record) if entry.job)
    jobs = jobs or tuple(each.job for each in list_chain(record) if each.job)
    if jobs or record.job is None:
        return jobs
    return (record.job,)


def find_element_jobs(record: RunRecord, elements: Sequence[int]) -> tuple[JobId, ...]:
    """The job ids of these elements, as far as they are submitted."""
    if not read_arrays(record.shape):
        return tuple(record.job._replace(task=each) for each in elements if record.job)
    wanted = frozenset(elements)
    return tuple(
        job._replace(task=element - array.offset)
        for job, array in list_array_jobs(record)
        for element in array.list_elements()
        if element in wanted
    )


def list_missing(record: RunRecord) -> tuple[SweepArray, ...]:
    """The arrays of a large sweep that the scheduler has not taken yet."""
    known = record.submission.get("arrays", {})
    arrays = read_arrays(record.shape)
    return tuple(array for n, array in enumerate(arrays) if n and str(n) not in known)
