"""The entries of a race, as a record keeps them."""

from __future__ import annotations

import pytest

from jobgen.model.form import Refusal
from jobgen.model.race import (
    RACE,
    decide_race,
    find_winner,
    is_undecided,
    lacks_entries,
    list_entries,
    list_words,
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
    shape={"race": [["--partition=a"], ["--partition=b"], ["--qos=c"]]},
)


def build(**submission: object) -> RunRecord:
    found: Submission = submission  # type: ignore[assignment]
    return RECORD._replace(submission=found)


def test_the_words_of_an_entry_are_options_of_sbatch() -> None:
    race = RACE([{"partition": "a"}, {"partition": "b", "qos": "c"}])
    assert list_words(race) == (("--partition=a",), ("--partition=b", "--qos=c"))


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("partition", "J120"),
        ([{}, {"qos": "a"}], "J120"),
        ([{"qos": "a"}], "J298"),
        ([{"qos": str(n)} for n in range(5)], "J298"),
        ([{"qos": "a"}, {"qos": "a"}], "J298"),
        ([{"qos": "a"}, {"nodes": "2"}], "J298"),
        ([{"qos": "a"}, {"cluster": "b"}], "J298"),
        ([{"qos": "a"}, {"qso": "b"}], "J298"),
    ],
)
def test_what_cannot_race_is_refused(value: object, code: str) -> None:
    with pytest.raises(Refusal) as refused:
        RACE(value)
    assert [fault.code for fault in refused.value.faults] == [code]


def test_all_jobs_are_asked_about_until_one_has_won() -> None:
    waiting = build(arrays={"1": "8", "2": "9"})
    assert is_undecided(waiting)
    assert list_jobs(waiting) == (JobId(7), JobId(8), JobId(9))
    won = decide_race(waiting, JobId(9))
    assert find_winner(won) == JobId(9)
    assert list_jobs(won) == (JobId(9),)


def test_the_first_entry_keeps_its_job_when_another_one_has_won() -> None:
    won = decide_race(build(arrays={"1": "8"}, state={"others": ["7"]}), JobId(8))
    assert [entry.job for entry in list_entries(won)] == [JobId(7), JobId(8), None]


def test_an_entry_that_was_refused_is_not_missing() -> None:
    assert lacks_entries(build(arrays={"1": "8"}))
    refused = build(arrays={"1": "8"}, arrays_failed="2 sbatch: error: Invalid qos")
    assert not lacks_entries(refused)
    assert list_entries(refused)[2].failure == "sbatch: error: Invalid qos"
    assert not lacks_entries(decide_race(build(), JobId(7)))


def test_a_claim_changes_no_other_run() -> None:
    single = RECORD._replace(shape={})
    assert decide_race(single, JobId(9)) == single
