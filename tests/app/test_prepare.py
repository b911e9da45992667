from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from jobgen.app.gathering import find_missing_launchers
from jobgen.app.prepare import prepare
from jobgen.app.world import World
from jobgen.errors import Invalid

Job = Callable[..., Path]


def test_a_tilde_in_workdir_is_the_home_of_who_submits(world: World, job: Job) -> None:
    made = world.home / "project"
    made.mkdir()
    (made / "train.py").write_text("")
    for named in ("~/project", "{path: ~/project}"):
        ready = prepare(world, job("train.py", f"workdir: {named}"), "here")
        assert ready.workdir == made.resolve()
    with pytest.raises(Invalid) as caught:
        prepare(world, job("hostname", 'workdir: "~"'), "here")
    assert [problem.code for problem in caught.value.problems] == ["J198"]


@pytest.mark.parametrize("named", ["~nobody/project", "~/not-there"])
def test_a_tilde_that_leads_nowhere_is_refused_with_its_place(
    world: World, job: Job, named: str
) -> None:
    with pytest.raises(Invalid) as caught:
        prepare(world, job("hostname", f"workdir: {named}"), "here")
    (problem,) = caught.value.problems
    assert problem.code == "J180"
    assert problem.place is not None
    assert problem.place.line == 5
    assert named in problem.message
    assert "~/ is your home on this machine" in problem.hint


def test_a_group_finds_the_profile_of_its_nodes_beside_the_job(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "h100.yaml").write_text(
        "name: a100x16-h100\nextends: a100x16\n"
        "nodes: {gpus_per_node: 4, gpu: H100-SXM5-80GB}\ndefaults: {slurm: {partition: h100}}\n"
    )
    (folder / "train.py").write_text("")
    train, serve = "{nodes: 1, run: train.py}", "{nodes: 1, run: serve, cluster: %s, until: train}"
    file = folder / "job.yaml"
    text = f"name: two\ntime: 1h\nlauncher: plain\ngroups: {{train: {train}, serve: {serve}}}\n"
    here = World(environ={}, cwd=folder, home=tmp_path / "home")
    file.write_text(text % "h100.yaml")
    plan = prepare(here, file, "a100x16").plan
    assert [each.shape.gpus_per_node for each in plan.components] == [8, 4]
    assert prepare(here, file, "local").plan.components == ()
    file.write_text(text % "h200.yaml")
    with pytest.raises(Invalid) as caught:
        prepare(here, file, "a100x16")
    (problem,) = [each for each in caught.value.problems if each.severity == "error"]
    assert (problem.code, problem.place and problem.place.line) == ("J182", 4)


def test_launchers_are_looked_for_on_the_path_of_jobs_here(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "torchrun").write_text("#!/bin/sh\n")
    (programs / "torchrun").chmod(0o755)
    # of jobgen's own environment, too
    monkeypatch.setattr("sys.executable", str(tmp_path / "nowhere" / "python"))
    there = replace(world, environ={"PATH": str(programs)})
    assert "torchrun" not in find_missing_launchers(there)
    assert "torchrun" in find_missing_launchers(replace(world, environ={"PATH": "/nowhere"}))
