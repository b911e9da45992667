"""Arrays of a large sweep that a scheduler took and no longer lists."""

from __future__ import annotations

from jobgen.app.job_answers import RunAnswers
from jobgen.app.lost_arrays import GONE, GONE_ENTRY, describe_loss, find_unlisted
from jobgen.model.observation import Observation
from jobgen.model.record import JobId, JobState, Login, RunRecord, Site
from jobgen.submission.markers import Markers

SITE = Site("big", "slurm", Login("paramiko", "login.big"), "/scratch/jobgen")
TOKEN = "a" * 26


def made(**submission: object) -> RunRecord:
    """A sweep of 13 elements in three arrays, all of them submitted."""
    return RunRecord(
        token=TOKEN,
        alias="many-1",
        name="many",
        site=SITE,
        digest="",
        created=0.0,
        job=JobId(41),
        shape={"elements": 13, "arrays": [[0, "0-5"], [6, "0-5"], [12, "0"]]},
        submission={"arrays": {"1": "42", "2": "43"}, **submission},  # type: ignore[typeddict-item]
    )


def listed(*jobs: int, token: str = TOKEN) -> RunAnswers:
    answers = RunAnswers()
    for job in jobs:
        comment = f"jobgen:{token}:1"
        answers.add({JobId(job): Observation(JobId(job), JobState.PENDING, comment=comment)})
    return answers


def test_an_array_that_neither_waits_nor_has_begun_is_not_listed() -> None:
    assert find_unlisted(made(), listed(41, 42, 43), Markers()) == {}
    assert find_unlisted(made(), listed(41, 43), Markers()) == {"1": JobId(42)}


def test_a_job_of_another_run_under_its_id_does_not_count() -> None:
    answers = listed(43, token="b" * 26)
    assert find_unlisted(made(), answers, Markers()) == {"1": JobId(42), "2": JobId(43)}


def test_an_array_of_which_an_element_began_or_was_cancelled_was_not_lost() -> None:
    begun = Markers(started={("8", 0): 5.0})
    assert find_unlisted(made(), listed(41), begun) == {"2": JobId(43)}
    cancelled = made(element_states={"CANCELLED": "12"})
    assert find_unlisted(cancelled, listed(41), begun) == {}


def test_a_run_that_is_cancelled_has_lost_nothing() -> None:
    assert find_unlisted(made(), listed(), Markers(cancel=True)) == {}


RACE = {"race": [["--partition=a"], ["--partition=b"], ["--partition=none"]]}
REFUSED = "2 sbatch: error: Invalid partition"


def build_race(**submission: object) -> RunRecord:
    """A race of three entries, of which one was refused."""
    known = {"arrays": {"1": "42"}, "arrays_failed": REFUSED, **submission}
    return made(**known)._replace(shape=RACE)


def test_an_entry_of_a_race_is_lost_if_the_first_one_still_waits() -> None:
    assert find_unlisted(build_race(), listed(41, 42), Markers()) == {}
    assert find_unlisted(build_race(), listed(41), Markers()) == {"1": JobId(42)}
    assert find_unlisted(build_race(), listed(), Markers()) == {}


def test_a_race_that_a_job_has_won_has_lost_no_entry() -> None:
    assert find_unlisted(build_race(winner="41"), listed(41), Markers()) == {}
    assert find_unlisted(build_race(), listed(41), Markers(claim=JobId(41))) == {}


def test_entries_that_are_missing_for_long_are_named_beside_those_refused() -> None:
    text = describe_loss(build_race(), {"1": JobId(42)})
    assert text.splitlines() == [f"1 {GONE_ENTRY}", REFUSED]
    assert describe_loss(made(), {"1": JobId(42)}) == GONE
