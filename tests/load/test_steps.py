"""``steps``: what a list of programs may say, and what of the whole job goes with it."""

from __future__ import annotations

import pytest

from jobgen.load import check, load_job
from tests.load.complaints import complain

JOB = "name: demo\nnodes: 2\ntime: 2h\n"
TWO = "steps: [{run: train.py}, {name: eval, run: eval.py, nodes: 1, launcher: srun}]\n"


def test_a_step_has_a_name_and_only_what_differs() -> None:
    loaded = load_job(JOB + TWO, "job.yaml")
    first, second = loaded.value.steps
    assert (first.name, first.run, first.nodes, first.launcher) == ("step1", "train.py", None, None)
    assert second.launcher is not None
    assert (second.name, second.nodes, second.launcher.type) == ("eval", 1, "srun")
    assert loaded.value.run == ""
    assert [[p.program.name for p in each.programs] for each in loaded.by_step] == [
        ["train.py"],
        ["eval.py"],
    ]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            TWO + "run: train.py\n",
            "run and steps exclude each other: each step has a run of its own",
        ),
        (TWO + "train: {strategy: ddp}\n", "train describes one program, but steps has several"),
        (TWO + "preflight: full\n", "preflight: full measures the network for one program"),
        ("steps: []\n", "steps: expected a list of steps"),
        ("steps: train.py\n", "steps: expected a list of steps"),
        ("steps: [{name: a, run: a.py}, {name: a, run: b.py}]\n", "a second step is called 'a'"),
        ("steps: [{name: 1st, run: a.py}]\n", "got the text '1st'"),
        ("steps: [{name: a/b, run: a.py}]\n", "got the text 'a/b'"),
        ("steps: [{name: a}]\n", "steps[0].run is missing"),
        ("steps: [{run: a.py}, {run: b.py, nodes: 3}]\n", "steps[1].nodes: 3, but the job has 2"),
        ("steps: [{run: a.py, nodes: 1}]\n", "nodes: 2, but no step uses more than 1"),
        ("steps: [{run: a.py, env: {RANK: 1}}]\n", "steps[0].env.RANK cannot be set"),
        ("steps: [{run: srun a.py}]\n", "is a second launcher"),
        (f"steps: [{', '.join(['{run: a.py}'] * 17)}]\n", "17 steps, but at most 16 are supported"),
        (TWO + "repeat: 33\n", "repeat: 33 rounds of 2 steps, but at most 64 steps are supported"),
        (TWO + "repeat: 0\n", "repeat: 0 is out of range"),
        ("run: a.py\nrepeat: 2\n", "repeat is for steps, but the job has none"),
        (
            f"steps: [{{name: {'a' * 31}, run: a.py}}]\nrepeat: 2\n",
            "steps[0].name: too long for the name of round 2",
        ),
    ],
)
def test_what_cannot_be_is_refused(more: str, message: str) -> None:
    assert any(message in each for each in complain(JOB + more)), complain(JOB + more)


def test_a_number_of_nodes_that_varies_is_refused() -> None:
    text = JOB.replace("nodes: 2", "nodes: 1:2") + TWO
    assert "steps need a fixed number of nodes, but nodes is MIN:MAX" in complain(text)


def test_a_key_of_the_whole_job_is_refused_in_a_step_with_where_it_stands() -> None:
    (problem,) = check(JOB + "steps: [{run: a.py, setup: x}]\n", "job.yaml").problems
    assert problem.message == "unknown key 'steps[0].setup'"
    assert problem.hint == "write setup: x at the top of the file"


def test_a_job_without_either_lacks_run() -> None:
    assert complain(JOB) == ["run is missing"]


def test_a_variable_is_put_into_a_step_and_a_settings_place_is_that_of_the_step() -> None:
    text = JOB + "vars: {LR: 1e-4}\nsteps:\n- run: train.py --lr ${LR}\n- {run: eval.py}\n"
    loaded = load_job(text, "job.yaml")
    assert loaded.value.steps[0].run == "train.py --lr 1e-4"
    assert loaded.find_place("steps", 1, "run").line == 7
