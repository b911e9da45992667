"""The entries of a race, as a record keeps them."""

from __future__ import annotations

import pytest

from jobgen.model.form import Refusal
from jobgen.model.race import (
    RACE,
    decide_race,
    find_time_limit,
    find_winner,
    find_winner_shape,
    is_undecided,
    lacks_entries,
    list_entries,
    list_times,
    list_words,
)
from jobgen.model.record import JobId, Login, RunRecord, Site
from jobgen.model.record_data import Submission
from jobgen.model.sweep_arrays import list_jobs
from jobgen.model.units import Walltime

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


def test_a_time_is_written_as_slurm_reads_it_without_doubt() -> None:
    race = RACE([{"time": "90m"}, {"qos": "c"}])
    assert list_words(race) == (("--time=01:30:00",), ("--qos=c",))
    assert list_times(race, Walltime(60)) == (Walltime(5400), Walltime(60))
    assert list_times((), Walltime(60)) == (Walltime(60),)


def test_the_time_limit_of_a_race_is_that_of_its_winner() -> None:
    shape = {"race": [["--time=01:30:00"], ["--qos=c"]], "seconds": 7200}
    record = build(arrays={"1": "8"})._replace(shape=shape)
    assert find_time_limit(record) == 7200
    assert find_time_limit(decide_race(record, JobId(7))) == 5400
    assert find_time_limit(decide_race(record, JobId(8))) == 7200


def test_the_winner_s_shape_is_that_of_the_run_and_names_its_scripts() -> None:
    race = RACE([{"nodes": "1"}, {"nodes": 2, "qos": "c"}])
    assert list_words(race) == (("nodes=1",), ("nodes=2", "--qos=c"))
    shape = {"race": list_words(race), "nodes": 1, "race_shapes": {"1": {"nodes": 2}}}
    waiting = build(arrays={"1": "8"})._replace(shape=shape)
    assert [entry.name for entry in list_entries(waiting)] == ["nodes=1", "nodes=2,qos=c"]
    assert find_winner_shape(waiting) == shape
    first = decide_race(waiting, JobId(7))
    assert (find_winner_shape(first), first.bundle_folder) == (shape, "bundle")
    won = decide_race(waiting, JobId(8))
    run = won._replace(shape=find_winner_shape(won))
    assert (run.shape["nodes"], run.bundle_folder) == (2, "bundle/race.1")
    assert find_winner_shape(run) == run.shape


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("partition", "J120"),
        ([{}, {"qos": "a"}], "J120"),
        ([{"qos": "a"}], "J298"),
        ([{"qos": str(n)} for n in range(5)], "J298"),
        ([{"qos": "a"}, {"qos": "a"}], "J298"),
        ([{"qos": "a"}, {"mem": "2G"}], "J298"),
        ([{"qos": "a"}, {"nodes": 0}], "J122"),
        ([{"qos": "a"}, {"nodes": "many"}], "J121"),
        ([{"nodes": 2}, {"nodes": "2"}], "J298"),
        ([{"time": "1h"}, {"time": "60m"}], "J298"),
        ([{"time": "1h"}, {"time": "soon"}], "J132"),
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
