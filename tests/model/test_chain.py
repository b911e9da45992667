"""The jobs of a chain, as a record keeps them."""

from __future__ import annotations

from jobgen.model.chain import (
    MOST,
    ChainJob,
    find_first_job,
    find_newest_job,
    follow_chain,
    is_over,
    lacks_chain_jobs,
    list_chain,
    read_chain,
)
from jobgen.model.record import JobId, Login, RunRecord, Site
from jobgen.model.record_data import Submission
from jobgen.model.sweep_arrays import list_jobs

RECORD = RunRecord(
    token="a" * 26,
    alias="demo-1",
    name="demo",
    site=Site("here", "slurm", Login("local"), "/scratch"),
    digest="d",
    created=0.0,
    job=JobId(7),
    shape={"chain": 3},
)


def build(**submission: object) -> RunRecord:
    known: Submission = {"state": {"job": "7"}, **submission}  # type: ignore[typeddict-item]
    return RECORD._replace(submission=known)


def test_all_jobs_of_a_chain_are_asked_about() -> None:
    record = build(arrays={"1": "8", "2": "9"})
    assert list_jobs(record) == (JobId(7), JobId(8), JobId(9))
    assert not lacks_chain_jobs(record)


def test_the_first_job_names_the_log_when_another_one_runs() -> None:
    record = follow_chain(build(arrays={"1": "8"}), JobId(8), over=False)
    assert (record.job, find_newest_job(record)) == (JobId(8), JobId(8))
    assert find_first_job(record) == JobId(7)
    assert list_chain(record)[0].job == JobId(7)
    assert not is_over(record)
    assert is_over(follow_chain(record, JobId(8), over=True))


def test_after_a_refused_job_no_other_one_is_missing() -> None:
    assert lacks_chain_jobs(build(arrays={"1": "8"}))
    refused = build(arrays={"1": "8"}, arrays_failed="2 sbatch: error: limit")
    assert list_chain(refused)[2] == ChainJob(None, "sbatch: error: limit")
    assert not lacks_chain_jobs(refused)


def test_another_run_is_no_chain() -> None:
    single = RECORD._replace(shape={})
    assert (list_chain(single), find_first_job(single)) == ((), JobId(7))
    assert follow_chain(single, JobId(9), over=True) == single
    for length in (0, 1, MOST + 1, "3", None):
        assert read_chain({"chain": length}) == 0
