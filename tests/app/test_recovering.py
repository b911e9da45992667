"""Runs that the run database does not know."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from jobgen.app import jobs
from jobgen.app.cancelling import cancel
from jobgen.app.prepare import prepare
from jobgen.app.recovering import recover
from jobgen.app.submit import submit
from jobgen.app.world import World
from jobgen.errors import Missing, Usage
from jobgen.model.plan import Estimate
from jobgen.model.record import JobState, RunRecord
from jobgen.submission.program_report import record_estimate

Job = Callable[..., Path]


def run(world: World, path: Path) -> RunRecord:
    return submit(world, prepare(world, path, "here"))


@pytest.fixture
def forgetful(world: World) -> World:
    """The same world with a run database of its own, which is empty."""
    state = {"JOBGEN_STATE_HOME": str(world.home / "other-state")}
    return replace(world, environ={**world.environ, **state})


def test_every_run_is_known_again_by_its_name(world: World, forgetful: World, job: Job) -> None:
    first, second = run(world, job("exit 0")), run(world, job("exit 7"))
    waits = run(world, job("sleep 600"))
    jobs.wait(world, [first.alias, second.alias])
    found = recover(forgetful, "here")
    assert (found.known, found.passed_over) == (0, ())
    by_alias = {record.alias: record for record in found.records}
    assert {*by_alias} == {first.alias, second.alias, waits.alias}
    assert by_alias[first.alias].state is JobState.COMPLETED
    assert (by_alias[second.alias].state, by_alias[second.alias].exit) == (JobState.FAILED, "7:0")
    assert by_alias[waits.alias].job == waits.job
    assert forgetful.ledger.get(waits.alias).digest == waits.digest
    (gone,) = cancel(forgetful, [waits.alias])
    assert gone.state is JobState.CANCELLED
    again = recover(forgetful, "here")
    assert (again.records, again.known) == ((), 3)


def test_one_directory_is_taken_up_alone(world: World, forgetful: World, job: Job) -> None:
    first, second = run(world, job("exit 0")), run(world, job("exit 0"))
    jobs.wait(world, [first.alias, second.alias])
    (record,) = recover(forgetful, "here", [f"{second.directory}/"]).records
    assert record.token == second.token
    for wrong in ("/etc", "x", f"{first.directory}/../.."):
        with pytest.raises(Usage, match="not the path of a run directory"):
            recover(forgetful, "here", [wrong])
    with pytest.raises(Missing, match="no run directory of yours"):
        recover(forgetful, "here", [f"{first.directory[:-8]}aaaaaaaa"])


def test_a_run_keeps_its_labels_and_set_values(world: World, forgetful: World, job: Job) -> None:
    path = job("exit 0", "labels: {team: a}")
    record = submit(world, prepare(world, path, "here", ["time=2m"]))
    jobs.wait(world, [record.alias])
    (known,) = recover(forgetful, "here").records
    left_out = {"file", "profile"}
    assert known.shape == {k: v for k, v in record.shape.items() if k not in left_out}


ODD = {"arrays": [[0, "x"]], "array": "9-1", "options": ["--wrap=rm"], "race": [[]], "labels": [1]}
ODD |= {"race_shapes": {"1": {"nodes": "2"}}, "bundle": "../other", "expected": {"gpu": 7}}
EXPECTED = record_estimate(Estimate(2e9, 3e9, 4e9, 8e9, "fits", "", seconds=2.5, gpu="A100"))


def test_what_jobgen_never_writes_is_not_kept(world: World, forgetful: World, job: Job) -> None:
    record = run(world, job("exit 0"))
    jobs.wait(world, [record.alias])
    file = Path(record.directory) / "run.json"
    about = json.loads(file.read_text())
    file.write_text(json.dumps({**about, "shape": {**about["shape"], **ODD, "other": 1}}))
    (known,) = recover(forgetful, "here").records
    assert not {*ODD, "other"} & {*known.shape}


def test_the_shapes_of_a_race_are_kept_with_their_estimates(
    world: World, forgetful: World, job: Job
) -> None:
    record = run(world, job("exit 0"))
    jobs.wait(world, [record.alias])
    file = Path(record.directory) / "run.json"
    about = json.loads(file.read_text())
    told = {**EXPECTED, "race_shapes": {"1": {"nodes": 2, **EXPECTED}}}
    file.write_text(json.dumps({**about, "shape": {**about["shape"], **told}}))
    (known,) = recover(forgetful, "here").records
    assert {key: known.shape.get(key) for key in told} == told


def test_an_alias_that_is_taken_is_not_given_twice(
    world: World, forgetful: World, job: Job
) -> None:
    old = run(world, job("exit 0"))
    new = run(forgetful, job("exit 0"))
    jobs.wait(world, [old.alias])
    jobs.wait(forgetful, [new.alias])
    assert old.alias == new.alias == "probe-1"
    (record,) = recover(forgetful, "here").records
    assert (record.token, record.alias) == (old.token, "probe-2")


@pytest.mark.parametrize("wrong", ["token", "name", "about", "never submitted", "other user"])
def test_a_directory_that_is_no_submitted_run_is_passed_over(
    world: World, forgetful: World, job: Job, wrong: str
) -> None:
    record = run(world, job("exit 0"))
    jobs.wait(world, [record.alias])
    directory = Path(record.directory)
    about = json.loads((directory / "run.json").read_text())
    if wrong == "token":
        (directory / "TOKEN").write_text("a" * 26 + "\n")
    elif wrong == "name":
        (directory / "run.json").write_text(json.dumps({**about, "name": "../../x"}))
    elif wrong == "about":
        (directory / "run.json").write_text("[" * 5000)
    elif wrong == "never submitted":
        shutil.rmtree(directory / "submit")
    elif os.geteuid():
        pytest.skip("only root can give files away")
    else:
        os.chown(directory, 12345, -1)
    found = recover(forgetful, "here")
    assert found.records == ()
    assert found.passed_over == (() if wrong == "other user" else (record.directory,))


def test_a_root_that_is_not_there_holds_no_runs(forgetful: World) -> None:
    assert recover(forgetful, "here") == ((), 0, ())


@pytest.mark.parametrize(
    "odd", [{"created": 10**400}, {"shape": {"nodes": "x", "launcher": 7}}, {"shape": []}]
)
def test_an_odd_description_spoils_no_other_run(
    world: World, forgetful: World, job: Job, odd: dict[str, object]
) -> None:
    first, second = run(world, job("exit 0")), run(world, job("exit 0"))
    jobs.wait(world, [first.alias, second.alias])
    file = Path(first.directory) / "run.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **odd}))
    found = recover(forgetful, "here")
    assert second.token in {record.token for record in found.records}
    assert all("nodes" not in r.shape for r in found.records if r.token == first.token)
