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


def test_an_entry_with_a_shape_of_its_own_has_scripts_of_its_own() -> None:
    race = "[{partition: a, nodes: 2, time: 1h}, {nodes: 1}, {partition: b, nodes: 2}]"
    made = plan(job(race=race, time="4h"))
    ((number, other),) = made.race_plans
    assert (made.shape.nodes, number, other.shape.nodes) == (2, 1, 1)
    assert (
        made.race
        == other.race
        == (
            ("--partition=a", "nodes=2", "--time=01:00:00"),
            ("nodes=1",),
            ("--partition=b", "nodes=2"),
        )
    )
    assert made.directives["nodes"].place.line == other.directives["nodes"].place.line
    files = {file.path: file.content.decode() for file in render(made, templates()).files}
    assert "#SBATCH --nodes=2" in files["job.sbatch"]
    assert "bundle=$PWD/bundle src=" in files["job.sbatch"]
    assert "#SBATCH --nodes=1" in files["race.1/job.sbatch"]
    assert "bundle=$PWD/bundle/race.1 src=" in files["race.1/job.sbatch"]
    assert "find bundle -type f" in files["race.1/job.sbatch"]
    assert "race.1/rank.sh" in files
    assert not any(path.startswith("race.2") for path in files)


def test_the_cost_is_that_of_the_dearest_entry() -> None:
    race = "[{nodes: 2, time: 1h}, {nodes: 1, time: 4h}]"
    made = plan(job(race=race))
    assert made.gpu_hours == 4 * made.shape.gpus_per_node
    assert made.shape.seconds == 3600


def test_a_problem_of_one_shape_names_its_entry() -> None:
    with pytest.raises(Invalid) as refused:
        plan(job(race="[{nodes: 1}, {partition: b, nodes: 500}]"))
    (problem,) = refused.value.problems
    assert problem.message.startswith("race: partition=b,nodes=500: nodes: 500, but")


def test_a_shape_that_does_not_fit_is_named_beside_the_one_that_does() -> None:
    train = "{model: meta-llama/Llama-3.1-8B, strategy: fsdp2, seq_len: 4096, micro_batch: 1}"
    made = plan(job(race="[{nodes: 2}, {nodes: 1, gpus_per_node: 1}]", train=train))
    checks = [check for check in made.checks if check.code == "J251"]
    assert [(check.status, check.entry) for check in checks] == [("fail", 1)]
    assert checks[0].message.startswith("race: nodes=1,gpus_per_node=1: does not fit")


def test_a_problem_of_all_shapes_is_reported_once_and_names_none() -> None:
    with pytest.raises(Invalid) as refused:
        plan(job(race="[{nodes: 1}, {nodes: 2}]", mem="9999G"))
    (problem,) = refused.value.problems
    assert not problem.message.startswith("race: ")


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
