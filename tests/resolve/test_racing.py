"""A race in the plan: its words for sbatch, and where it cannot be."""

from __future__ import annotations

import pytest

from jobgen.errors import Invalid
from jobgen.render import render
from tests.golden.cases import templates
from tests.resolve.made import LOCAL, job, plan

RACE = "[{partition: a}, {partition: b, qos: c}]"


def test_the_options_of_the_entries_stand_in_no_script() -> None:
    made = plan(job(race=RACE))
    assert made.race == (("--partition=a",), ("--partition=b", "--qos=c"))
    assert "partition" not in made.directives
    bundle = render(made, templates())
    script = next(f.content.decode() for f in bundle.files if f.path == "job.sbatch")
    assert "submit/withdraw.sh" in script


def test_a_job_without_a_race_withdraws_nothing() -> None:
    bundle = render(plan(job()), templates())
    assert not any(b"withdraw" in file.content for file in bundle.files)


def test_the_shortest_time_bears_the_grace_and_the_longest_the_cost() -> None:
    race = "[{time: 10m}, {time: 6h}]"
    assert plan(job(race=race)).shape.seconds == 6 * 3600
    with pytest.raises(Invalid, match="grace: 15m is not shorter than time: 10m"):
        plan(job(race=race, checkpoint="{grace: 15m}"))


def test_the_local_cluster_has_one_queue() -> None:
    with pytest.raises(Invalid, match="one queue"):
        plan(job(race=RACE), LOCAL)


def test_an_array_does_not_race() -> None:
    with pytest.raises(Invalid, match="exclude each other"):
        plan(job(race=RACE, array="0-3"))


def test_a_job_after_a_race_needs_its_winner() -> None:
    made = plan(job(after="[prepare]"), after={"prepare": ""})
    (check,) = [each for each in made.checks if each.code == "J209"]
    assert (check.status, made.submit_options) == ("fail", ())
    assert "none of its jobs has started" in check.message
