"""A watched job on the local cluster: asked while it runs, once after its end, and remembered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from jobgen.app import jobs, monitor_reports
from jobgen.app.prepare import prepare
from jobgen.app.submit import submit
from jobgen.app.world import World
from jobgen.model.record import JobState, Login, RunRecord, Site
from tests.app.conftest import Link
from tests.waiting import until

Job = Callable[..., Path]
TOOL = "#!/bin/bash\necho '0, 97, 70123, 81559, 65, 612.34, 700.00, 1755, 1980, 2619, 0x4'\n"


@pytest.fixture
def watched(world: World, job: Job) -> Callable[[str], RunRecord]:
    """Submits a job of two nodes that is watched every second, with a tool of their own."""
    tools = world.home / "tools"
    tools.mkdir()
    (tools / "nvidia-smi").write_text(TOOL)
    (tools / "nvidia-smi").chmod(0o755)
    path = f"env: {{PATH: '{tools}:$PATH'}}"

    def submitted(run: str) -> RunRecord:
        written = job(run, "monitor: 1s", path)
        written.write_text(written.read_text().replace("nodes: 1", "nodes: 2"))
        return submit(world, prepare(world, written, "here"))

    return submitted


def test_what_its_monitors_see_is_shown_while_it_runs_and_kept_after_its_end(
    world: World, link: Link, watched: Callable[[str], RunRecord]
) -> None:
    record = watched("until [[ -e end ]]; do sleep 0.1; done; exit 200")
    shown = [jobs.show(world, record.alias).watched]

    def watched_twice() -> bool:
        shown.append(jobs.show(world, record.alias).watched)
        nodes = shown[-1].nodes if shown[-1] else ()
        return len(nodes) == 2 and all(node.samples > 1 for node in nodes)

    until(watched_twice, pause=0.1)
    seen = shown[-1]
    assert [node.name for node in seen.nodes] == ["local1", "local2"]
    assert [[gpu.util for gpu in node.gpus] for node in seen.nodes] == [[97.0], [97.0]]
    assert monitor_reports.recall(world.ledger.get(record.alias)) is None

    Path(world.ledger.get(record.alias).directory, "src", "end").touch()
    (ended,) = jobs.wait(world, [record.alias])
    assert (ended.state, ended.exit) == (JobState.FAILED, "200:0")
    link.cut = True
    assert jobs.show(world, record.alias).watched is None
    link.cut = False
    final = jobs.show(world, record.alias)
    assert final.watched is not None
    assert final.watched.overall is not None
    link.cut = True
    again = jobs.show(world, record.alias)
    assert again.watched == final.watched
    assert jobs.show(world, record.alias, cached=True).watched == final.watched


def test_a_job_without_a_monitor_is_asked_nothing_of_it(world: World, link: Link, job: Job) -> None:
    record = submit(world, prepare(world, job("true"), "here"))
    jobs.wait(world, [record.alias])
    link.sent.clear()
    assert jobs.show(world, record.alias).watched is None
    assert link.sent == []


def test_what_many_nodes_complain_of_is_said_once() -> None:
    said = "".join(f"jobgen: n{i}: no nvidia-smi\n" for i in range(9)) + "srun: error: n1\n"
    record = a_record()
    told = {"monitor": ["node n1 samples=1 first=1 last=1"], "complaints": [said]}
    kept = record._replace(submission={"monitor": told})
    seen = monitor_reports.recall(kept)
    assert seen is not None
    assert seen.complaints == ("n0, n1, n2 and 6 more: no nvidia-smi",)
    without = monitor_reports.recall(
        record._replace(submission={"monitor": {"complaints": [said]}})
    )
    assert without is not None
    assert without.complaints[1:] == ("srun: error: n1",)


def a_record() -> RunRecord:
    site = Site("here", "local", Login("local"), "/root")
    shape = {monitor_reports.ASKED: 30}
    return RunRecord("t" * 26, "w-1", "w", site, "d", 0.0, "/root/w", shape=shape)
