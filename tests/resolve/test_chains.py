"""A chain in the plan: its pre-timeout signal, its script, and what it does not go with."""

from __future__ import annotations

import pytest

from jobgen.errors import Invalid
from jobgen.render import render
from tests.golden.cases import templates
from tests.resolve.made import LOCAL, job, plan

CHAIN = "{chain: 3, grace: 10m}"


def read_script(**keys: str) -> str:
    bundle = render(plan(job(**keys)), templates())
    return next(f.content.decode() for f in bundle.files if f.path == "job.sbatch")


@pytest.mark.parametrize("cluster", [None, LOCAL])
def test_each_job_of_a_chain_is_a_start(cluster: str | None) -> None:
    made = plan(job(checkpoint=CHAIN), cluster) if cluster else plan(job(checkpoint=CHAIN))
    assert made.starts == 3
    assert made.directives["signal"].value == "B:USR1@630"
    assert "no-requeue" in made.directives


def test_the_script_of_a_chain_hands_over_and_does_not_requeue() -> None:
    script = read_script(checkpoint=CHAIN)
    assert "if hand_over; then exit 0; fi" in script
    assert "scontrol requeue" not in script
    assert "hand_over" not in read_script(checkpoint="{requeue: true}")


def test_a_chain_of_steps_hands_over() -> None:
    assert "if hand_over" in read_script(
        run="", steps="[{run: a.py}, {run: b.py}]", checkpoint=CHAIN
    )


@pytest.mark.parametrize(
    ("keys", "hint"),
    [
        ({"array": "0-3"}, "requeue: true"),
        ({"sweep": "{grid: {LR: [1, 2]}}"}, "requeue: true"),
        ({"race": "[{partition: a}, {partition: b}]"}, "partition: 'a,b'"),
        ({"checkpoint": "{chain: 3, requeue: true}"}, "keep requeue"),
        ({"checkpoint": "{chain: 3, max_requeues: 2}"}, "keep requeue"),
    ],
)
def test_what_a_chain_does_not_go_with_names_another_way(keys: dict[str, str], hint: str) -> None:
    with pytest.raises(Invalid) as refused:
        plan(job(**{"checkpoint": CHAIN, **keys}))
    (problem,) = refused.value.problems
    assert problem.code == "J138"
    assert hint in problem.hint


@pytest.mark.parametrize("length", ["1", "101"])
def test_a_chain_has_two_to_a_hundred_jobs(length: str) -> None:
    with pytest.raises(Invalid, match="chain"):
        plan(job(checkpoint=f"{{chain: {length}}}"))


def test_a_job_after_a_chain_needs_its_end() -> None:
    made = plan(job(after="[train]"), after={"train": ""}, chains=frozenset({"train"}))
    (check,) = [each for each in made.checks if each.code == "J209"]
    assert check.status == "fail"
    assert "jobgen wait train" in check.hint
