"""A run is submitted again from its job file, with its --set, and of an array what failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from jobgen.app.prepare import prepare
from jobgen.app.rerunning import describe_differences, find_job
from jobgen.app.submit import submit
from jobgen.app.world import World
from jobgen.errors import Missing, Usage
from jobgen.model.record import JobId, JobState, Login, RunRecord, Site

SITE = Site("here", "slurm", Login("local"), "/runs")


def end_array(world: World, file: Path, **shape: object) -> RunRecord:
    """An array of which two elements did not succeed."""
    record = RunRecord("t" * 26, "scan", "scan", SITE, "0", 1.0, "/runs/scan", JobId(7))
    kept = {"elements": 4, "array": "0-3%2", "file": str(file), "sets": ["time=2h"], **shape}
    states = {"FAILED": "1", "TIMEOUT": "3"}
    ended = {"state": JobState.FAILED, "ended": True, "settled": True}
    fields = {name: value for name, value in ended.items() if name in RunRecord._fields}
    record = record._replace(shape=kept, submission={"unsuccessful": states}, **fields)
    return world.ledger.begin(record)


def test_a_run_has_its_job_file_cluster_and_sets(world: World, job: Callable[..., Path]) -> None:
    path = job("true")
    ready = prepare(world, path, "here", ["time=7m"])
    record = submit(world, ready, about={"file": str(path)})
    request = find_job(world, record.alias)
    assert (request.file, request.sets) == (path, ("time=7m",))
    again = prepare(world, request.file, "here", request.sets)
    assert describe_differences(world, request, again) == []
    other = prepare(world, request.file, "here", ["time=8m"])
    (text,) = describe_differences(world, request, other)
    assert text.startswith(f"the scripts differ from those of {record.alias}: jobgen plan ")
    assert text.endswith(f"--set time=8m --against {record.alias}")


def test_the_path_of_the_job_file_is_not_sent(world: World, job: Callable[..., Path]) -> None:
    path = job("true")
    record = submit(world, prepare(world, path, "here"), about={"file": str(path)})
    assert str(path) not in (Path(record.directory) / "run.json").read_text()


@pytest.mark.parametrize(
    ("shape", "chosen"), [({}, "array=1,3%2"), ({"sweep": True}, "sweep.only=1,3")]
)
def test_what_failed_of_an_array_is_chosen(
    world: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    shape: dict[str, bool],
    chosen: str,
) -> None:
    (tmp_path / "job.yaml").touch()
    record = end_array(world, tmp_path / "job.yaml", **shape)
    monkeypatch.setattr("jobgen.app.jobs.refresh_stale", lambda _, records, **__: records)
    monkeypatch.setattr("jobgen.app.failures.learn_causes", lambda _, records: records)
    assert find_job(world, record.alias, failed=True).sets == ("time=2h", chosen)


def test_a_job_file_that_is_gone_is_named(world: World, tmp_path: Path) -> None:
    record = end_array(world, tmp_path / "gone.yaml")
    with pytest.raises(Missing, match=r"gone\.yaml"):
        find_job(world, record.alias)


def test_of_a_run_that_succeeded_nothing_failed(world: World, job: Callable[..., Path]) -> None:
    from jobgen.app import jobs

    path = job("true")
    record = submit(world, prepare(world, path, "here"), about={"file": str(path)})
    jobs.wait(world, [record.alias])
    with pytest.raises(Usage, match="nothing of it failed"):
        find_job(world, record.alias, failed=True)


def test_a_profile_that_was_named_by_its_path_is_found_again(
    world: World, job: Callable[..., Path], tmp_path: Path
) -> None:
    world = replace(world, consent=lambda _: True)
    path, profile = job("true"), tmp_path / "elsewhere.yaml"
    shipped = (world.home / ".config/jobgen/clusters/here.yaml").read_text()
    profile.write_text(shipped.replace("name: here", "name: elsewhere"))
    record = submit(world, prepare(world, path, str(profile)), about={"file": str(path)})
    request = find_job(world, record.alias)
    again = prepare(world, request.file, record.profile, request.sets)
    second = submit(world, again, about={"file": str(path)})
    assert (record.profile, second.profile) == (str(profile), str(profile))
    assert str(profile) not in (Path(second.directory) / "run.json").read_text()
