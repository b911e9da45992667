"""A job's state is what a whole answer says: part of one changes nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from jobgen.app import jobs, monitor_reports
from jobgen.app.prepare import prepare
from jobgen.app.submit import submit
from jobgen.app.world import World
from jobgen.model.record import JobId, JobState, Login, RunRecord, Site
from jobgen.scheduler.slurm_format import SEPARATOR
from jobgen.submission.states import Phase, State
from tests.effort import count_calls


def test_markers_that_cannot_be_read_change_no_state(
    world: World,
    job: Callable[..., Path],
    breaks: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines: list[str] = []
    world = replace(world, say=lines.append)
    path = os.environ["PATH"]
    record = submit(world, prepare(world, job("exit 3"), "here"))
    end = Path(record.directory, "state", "0", "exit.0")
    while not end.exists():
        world.sleep(0.05)
    breaks("stat", "*")
    for _ in range(2):
        (seen,) = jobs.refresh_stale(world, [world.ledger.get(record.alias)])
        assert (seen.state, seen.ended, seen.updated) == (record.state, False, record.updated)
    assert lines == [f"here: cannot read all of {record.directory}/state; showing cached state"]
    monkeypatch.setenv("PATH", path)
    (seen,) = jobs.wait(world, [record.alias])
    assert (seen.state, seen.exit) == (JobState.FAILED, "3:0")


def test_a_summary_that_was_cut_is_not_remembered(
    world: World,
    job: Callable[..., Path],
    breaks: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = os.environ["PATH"]
    script = "until [[ -e end ]]; do sleep 0.1; done"
    record = submit(world, prepare(world, job(script, "monitor: 1s"), "here"))
    while not any(Path(record.directory).glob("state/0/monitor.0/*.csv")):
        world.sleep(0.05)
    Path(record.directory, "src", "end").touch()
    jobs.wait(world, [record.alias])
    for tool in ("tail", "find", "awk"):
        breaks(tool, "*")
        watched = jobs.show(world, record.alias).watched
        assert watched is not None
        assert (watched.nodes, bool(watched.unread)) == ((), True), tool
        assert monitor_reports.recall(world.ledger.get(record.alias)) is None, tool
    monkeypatch.setenv("PATH", path)
    watched = jobs.show(world, record.alias).watched
    assert watched is not None
    assert len(watched.nodes) == 1


def test_each_more_job_that_is_asked_about_takes_as_much_work(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "squeue").write_text(f"#!/bin/sh\nexec cat {tmp_path}/queue\n")
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    site = Site("there", "slurm", Login("local"), "/scratch", "none")
    records, rows = [], []
    for number in range(1, 201):
        run = RunRecord(f"{number:026}"[::-1], "", f"j{number}", site, "d1", created=1.0)
        (tmp_path / run.folder).mkdir()
        state = State(Phase.CONFIRMED, str(tmp_path / run.folder), job=JobId(number))
        run = run._replace(directory=state.directory, job=state.job, state=JobState.PENDING)
        records.append(world.ledger.begin(run._replace(submission={"state": state.data()})))
        seen = (str(number), "RUNNING", "None", "n1", "1:00", "9:00", "N/A", run.directory)
        rows.append(SEPARATOR.join((*seen, "", "j")) + "\n")

    def ask(count: int) -> None:
        (tmp_path / "queue").write_text("".join(rows[:count]))
        news = jobs.refresh_stale(world, records[:count])
        assert all(record.state is JobState.RUNNING for record in news)

    ask(1)  # not counted: modules are imported once
    few, more, most = (count_calls(lambda n=n: ask(n)) for n in (50, 100, 200))
    assert most - more < 2.5 * (more - few)
