"""Variants of a job, and variables that have no default."""

from __future__ import annotations

from typing import Any

import pytest

from jobgen.errors import Invalid
from jobgen.load import check, load_job
from jobgen.model.job import JobSpec

BASE = """\
name: pretrain
run: train.py --depth ${DEPTH}
nodes: 2
gpus_per_node: 8
time: 4h
launcher: torchrun
vars: {DEPTH: 24}
env: {A: '1', B: '2'}
slurm: {constraint: a100}
"""
TEXT = (
    BASE
    + """\
variants:
  big:
    nodes: 4
    vars: {DEPTH: 48, DEEP: x}
    env: {B: '3', C: '4'}
    launcher: {max_restarts: 2, args: [--tee, '3']}
    run: train.py --deep ${DEEP} --depth ${DEPTH}
  small: {nodes: 1, launcher: {type: srun}}
"""
)


def job(*sets: str, text: str = TEXT) -> JobSpec:
    return load_job(text, "job.yaml", sets=sets).value


def problems(text: str, *sets: str) -> list[tuple[str, int]]:
    found = check(text, "job.yaml", sets=sets).problems
    return [(each.code, each.place.line if each.place else 0) for each in found]


def test_a_variant_replaces_values_and_keeps_the_others() -> None:
    big = job("variant=big")
    assert (big.nodes, big.time, big.run) == (4, job().time, "train.py --deep x --depth 48")
    assert big.env == {"A": "1", "B": "3", "C": "4"}
    assert (big.launcher.type, big.launcher.max_restarts) == ("torchrun", 2)
    assert big.launcher.args == ("--tee", "3")


def test_without_a_choice_no_variant_is_used() -> None:
    plain = job(text=BASE)
    assert (job().nodes, job().run, job().env) == (plain.nodes, plain.run, plain.env)


def test_variant_chooses_one_and_the_command_line_another() -> None:
    text = f"{TEXT}variant: small\n"
    assert (job(text=text).nodes, job(text=text).launcher.type) == (1, "srun")
    assert job("variant=big", text=text).nodes == 4
    assert job("variant=big", "nodes=3", "variant=small", "DEPTH=2", text=text).nodes == 3


def test_values_have_the_places_of_the_variant() -> None:
    loaded = load_job(TEXT, "job.yaml", sets=["variant=big"])
    places = {path: loaded.find_place(*path) for path in (("nodes",), ("env", "B"), ("env", "A"))}
    lines: dict[Any, int] = {path: place.line for path, place in places.items() if place}
    assert lines == {("nodes",): 12, ("env", "B"): 14, ("env", "A"): 8}


def test_lint_checks_every_variant() -> None:
    assert problems(TEXT) == []
    assert problems(TEXT.replace("nodes: 4", "nodez: 4")) == [("J102", 12)]
    assert problems(TEXT.replace("type: srun", "type: slurm")) == [("J123", 17)]
    assert problems(TEXT.replace("--depth ${DEPTH}\n  small", "--depth 1\n  small")) == []


@pytest.mark.parametrize(
    ("text", "sets", "code", "line"),
    [
        (f"{TEXT}variant: bgi\n", [], "J166", 18),
        (f"{BASE}variant: big\n", [], "J166", 10),
        (TEXT, ["variant=bgi"], "J166", 0),
        (TEXT.replace("nodes: 1", "variant: big"), ["variant=small"], "J166", 17),
        (f"{BASE}variants: {{big: 4}}\n", [], "J120", 10),
    ],
)
def test_what_is_no_variant_is_refused(text: str, sets: list[str], code: str, line: int) -> None:
    with pytest.raises(Invalid) as error:
        load_job(text, "job.yaml", sets=sets)
    (problem,) = error.value.problems
    assert (problem.code, problem.place and problem.place.line) == (code, line)


REQUIRED = BASE.replace("{DEPTH: 24}", "{DEPTH: {required: number of layers}}")


def test_a_required_variable_is_given_by_set_or_by_a_variant() -> None:
    assert job("DEPTH=3", text=REQUIRED).run == "train.py --depth 3"
    text = f"{REQUIRED}variants: {{big: {{vars: {{DEPTH: 48}}}}}}\n"
    assert job("variant=big", text=text).run == "train.py --depth 48"


def test_a_required_variable_that_is_not_set_is_an_error_with_its_purpose() -> None:
    with pytest.raises(Invalid) as error:
        job(text=REQUIRED)
    (problem,) = error.value.problems
    assert (problem.code, problem.message) == ("J167", "DEPTH is not set: number of layers")
    assert problem.hint == "add --set DEPTH=VALUE"


@pytest.mark.parametrize("use", ["nodes: ${DEPTH}", "nodes: 2\nmem: ${DEPTH}G"])
def test_lint_notes_it_and_leaves_what_depends_on_it_open(use: str) -> None:
    text = REQUIRED.replace("nodes: 2", use)
    checked = check(text, "job.yaml")
    assert [(each.code, each.severity) for each in checked.problems] == [("J167", "note")]
    assert checked.valid
    broken = check(text.replace("time: 4h", "time: 4x"), "job.yaml")
    assert "J125" in {each.code for each in broken.problems} or not broken.valid


def test_a_variable_is_a_value_or_required() -> None:
    with pytest.raises(Invalid) as error:
        job(text=REQUIRED.replace("required:", "needed:"))
    hints = [problem.hint for problem in error.value.problems if problem.code == "J120"]
    assert hints == ["a variable without a default is {required: 'what it is'}"]


@pytest.mark.parametrize("word", ["variants.big.nodes=3", "variants={}"])
def test_set_cannot_change_a_variant_without_a_word(word: str) -> None:
    with pytest.raises(Invalid) as error:
        job("variant=big", word)
    (problem,) = error.value.problems
    assert (problem.code, problem.hint) == ("J162", "set the key itself: --set KEY=VALUE")


def test_an_empty_variant_is_the_job_as_it_stands() -> None:
    text = BASE + "variant: plain\nvariants:\n  plain: {}\n  big: {nodes: 4}\n"
    assert job(text=text).nodes == 2
    assert job("variant=big", text=text).nodes == 4


def test_a_variant_changes_a_job_of_several_steps() -> None:
    steps = BASE.replace("run: train.py --depth ${DEPTH}\n", "")
    text = steps + "steps: [{run: 'train.py ${DEPTH}'}]\nvariants:\n  big: {vars: {DEPTH: 48}}\n"
    loaded = load_job(text, "job.yaml", sets=["variant=big"])
    assert loaded.value.steps[0].run == "train.py 48"
    # the file as a whole has no place: what divides the steps' places reads their first key
    assert () not in loaded.places
