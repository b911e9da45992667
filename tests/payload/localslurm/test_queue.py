"""Whose turn it is, what waits for what, and where tasks go: no process needed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from jobgen.payload.localslurm.dependency import Met, met, read
from jobgen.payload.localslurm.environment import captured, path, per_node, spread
from jobgen.payload.localslurm.errors import CommandError
from jobgen.payload.localslurm.layout import layout
from jobgen.payload.localslurm.records import Job, Request, Status
from jobgen.payload.localslurm.schedule import turn

HOSTS = ["local1", "local2"]


def job(number: int, nodes: int = 1, state: str = "PENDING", **more: object) -> Job:
    used = list(range(1, nodes + 1)) if state == "RUNNING" else []
    request = Request(number, f"job{number}", nodes, "/", "/", "", 0.0)
    status = Status(state=state, nodes=used)
    for name, value in more.items():
        if hasattr(request, name) and not hasattr(status, name):
            request = request._replace(**{name: value})
        else:
            status = status._replace(**{name: value})
    return Job(request, status)


def nobody(_: int) -> None:
    return None


def test_a_job_gets_the_first_free_nodes() -> None:
    running = job(1, 2, "RUNNING")
    got = turn(job(2, 2), [running, job(2, 2)], 5, 0.0, nobody)
    assert got.nodes == [3, 4]


def test_a_job_waits_for_resources_and_the_next_one_for_its_turn() -> None:
    running, first, second = job(1, 2, "RUNNING"), job(2, 2), job(3, 1)
    active = [running, first, second]
    assert turn(first, active, 3, 0.0, nobody).reason == "Resources"
    assert turn(second, active, 3, 0.0, nobody).reason == "Priority"


def test_a_job_that_waits_for_something_else_holds_nobody_up() -> None:
    held = job(2, 2, reason="JobHeldUser")
    later = job(3, 2, reason="BeginTime", eligible=100.0)
    assert turn(later, [held, later], 2, 0.0, nobody).reason == "BeginTime"
    assert turn(job(4, 2), [held, later, job(4, 2)], 2, 0.0, nobody).nodes == [1, 2]


@pytest.mark.parametrize(
    ("text", "state", "expected"),
    [
        ("afterok:1", "COMPLETED", Met.YES),
        ("afterok:1", "FAILED", Met.NEVER),
        ("afterok:1", "RUNNING", Met.NOT_YET),
        ("afternotok:1", "TIMEOUT", Met.YES),
        ("afternotok:1", "COMPLETED", Met.NEVER),
        ("afterany:1", "CANCELLED", Met.YES),
        ("after:1", "RUNNING", Met.YES),
        ("after:1", "PENDING", Met.NOT_YET),
        ("after:1+1", "RUNNING", Met.NOT_YET),
        ("afterok:1,afterany:1", "FAILED", Met.NEVER),
        ("afterok:1?afterany:1", "FAILED", Met.YES),
    ],
)
def test_dependencies_are_met_as_slurm_says(text: str, state: str, expected: Met) -> None:
    start = 50.0 if state != "PENDING" else 0.0
    other = job(1, 1, state, start=start)
    assert met(job(2, dependency=text), lambda _: other, [], 60.0) is expected


def test_a_singleton_waits_for_older_jobs_of_its_name() -> None:
    older, mine = job(1, name="same"), job(2, name="same", dependency="singleton")
    assert met(mine, nobody, [older, mine], 0.0) is Met.NOT_YET
    assert met(mine, nobody, [mine], 0.0) is Met.YES


@pytest.mark.parametrize("text", ["foo:1", "afterok", "afterok:x", "singleton:1", "a,b?c"])
def test_a_dependency_that_cannot_be_read_is_no_dependency(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read(text)


def test_tasks_are_laid_out_in_blocks() -> None:
    step, warnings = layout({"ntasks": "4", "nodes": "2"}, ["x"], HOSTS, {})
    places = [(t.rank, t.node, t.local, t.host) for t in step.tasks]
    assert places == [
        (0, 0, 0, "local1"), (1, 0, 1, "local1"), (2, 1, 0, "local2"), (3, 1, 1, "local2"),
    ]  # fmt: skip
    assert warnings == []
    assert per_node(spread(4, 2)) == "2(x2)"


def test_the_batch_jobs_numbers_are_a_steps_defaults() -> None:
    environ = {"SLURM_NNODES": "2", "SLURM_NTASKS": "4"}
    step, _ = layout({}, ["x"], HOSTS, environ)
    assert (len(step.tasks), step.hosts) == (4, ("local1", "local2"))


def test_a_step_can_be_sent_to_one_node() -> None:
    words = {"nodelist": "local2", "nodes": "1", "ntasks": "1"}
    step, _ = layout(words, ["x"], HOSTS, {"SLURM_NNODES": "2"})
    assert [t.host for t in step.tasks] == ["local2"]


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"nodes": "3"}, "Only allocated 2 nodes asked for 3"),
        ({"ntasks": "0"}, 'Invalid numeric value "0" for --ntasks.'),
        ({"nodelist": "local9"}, "Requested node configuration is not available"),
        ({"nodes": "1", "ntasks": "4", "ntasks-per-node": "2"}, "More processors requested"),
    ],
)
def test_a_step_that_does_not_fit_is_refused(wanted: dict[str, str], words: str) -> None:
    with pytest.raises(CommandError, match=words):
        layout(wanted, ["x"], HOSTS, {"SLURM_NNODES": "2", "SLURM_NTASKS": "3"})


def test_export_decides_what_of_the_submitters_environment_arrives() -> None:
    environ = {"HOME": "/h", "A": "1", "B": "2", "SLURM_JOB_ID": "7", "SBATCH_X": "1"}
    assert captured("", environ) == {"HOME": "/h", "A": "1", "B": "2"}
    assert captured("ALL,C=3", environ) == {"HOME": "/h", "A": "1", "B": "2", "C": "3"}
    assert captured("NONE", environ) == {"HOME": "/h"}
    assert captured("A,D=4", environ) == {"HOME": "/h", "A": "1", "D": "4"}
    assert captured("NIL", environ) == {}


def test_the_path_ends_with_the_programs_of_jobgens_own_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "bin"
    own.mkdir()
    monkeypatch.setattr(sys, "executable", str(own / "python"))
    assert path("NONE", {"PATH": "/a:/b"}) == f"/a:/b:{own}"
    assert path("NONE", {"PATH": f"/a:{own}"}) == f"/a:{own}"
    assert path("NIL", {"PATH": "/a"}) == f"/usr/local/bin:/usr/bin:/bin:{own}"


def test_it_comes_first_where_it_has_torchrun_and_no_other_is_activated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torchrun").touch()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert path("NONE", {"PATH": "/a"}) == f"{tmp_path}:/a"
    assert path("NONE", {"PATH": "/a", "VIRTUAL_ENV": "/v"}) == f"/a:{tmp_path}"
