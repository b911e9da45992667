"""Chains on the local cluster: submitted, dry run, pruned, waited for."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from jobgen.app import jobs
from jobgen.app.cancelling import cancel
from jobgen.app.prepare import prepare
from jobgen.app.pruning import Selection, list_parts, take_inventory
from jobgen.app.recovering import recover
from jobgen.app.submit import rehearse_submit, submit
from jobgen.app.world import World
from jobgen.errors import Usage
from jobgen.model.chain import list_chain
from jobgen.model.record import JobState, RunRecord
from tests.waiting import until

Job = Callable[..., Path]
CHAIN = "checkpoint: {chain: 3, grace: 1m}"
STOPS = """\
touch "$JOBGEN_RUN_DIR/up.$JOBGEN_RESTART"
until [[ -e $JOBGEN_STOP_FILE || $JOBGEN_RESTART == 1 ]]; do sleep 0.05; done
[[ $JOBGEN_RESTART == 1 ]] || touch "$JOBGEN_STOPPED_FILE"
"""


def start(world: World, path: Path) -> RunRecord:
    """A chain whose first job runs."""
    record = submit(world, prepare(world, path, "here"))
    until(Path(record.directory, "up.0").exists, "the first start")
    return record


def test_the_second_job_of_a_chain_ends_the_run(world: World, job: Job) -> None:
    record = start(world, job(STOPS, CHAIN))
    first, second, third = (each.job for each in list_chain(record))
    assert (record.job, None in (second, third)) == (first, False)
    cancel(world, [record.alias], signal="USR1")
    (ended,) = jobs.wait(world, [record.alias])
    assert (ended.state, ended.restarts, ended.job) == (JobState.COMPLETED, 1, second)
    logs = sorted(path.name for path in Path(record.directory, "logs").glob("job-*"))
    assert logs == [f"job-{first}.out"]


def test_a_chain_is_live_while_a_job_waits(world: World, job: Job) -> None:
    record = start(world, job(STOPS, CHAIN))
    with pytest.raises(Usage, match="is live"):
        take_inventory(world, "here", Selection((record.alias,)), list_parts("logs", outputs=False))
    (ended,) = cancel(world, [record.alias])
    assert ended.state is JobState.CANCELLED
    assert not Path(record.directory, "up.1").exists()


def test_a_run_database_that_is_lost_knows_all_jobs_again(world: World, job: Job) -> None:
    record = start(world, job(STOPS, CHAIN))
    state = {"JOBGEN_STATE_HOME": str(world.home / "other-state")}
    other = replace(world, environ={**world.environ, **state})
    (found,) = recover(other, "here").records
    assert list_chain(found) == list_chain(record)
    cancel(other, [found.alias])


def test_the_commands_of_a_dry_run_submit_the_chain(world: World, job: Job) -> None:
    """As a person would paste them, with the files of the run where they would lie."""
    ready = prepare(world, job("true", CHAIN), "here")
    lines = [s.command for s in rehearse_submit(ready).steps if s.title == "submit"]
    assert [line.partition("=")[0] for line in lines] == ["job1", "job2", "job3"]
    directory = lines[0].partition("cd ")[2].partition(" ")[0]
    Path(directory, "bundle").mkdir(parents=True)
    for file in ready.bundle.files:
        path = Path(directory, "bundle", file.path)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(file.content)
    text = "\n".join([*lines, 'echo "$job1 $job2 $job3"'])
    done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, env=os.environ)
    ids = done.stdout.split()
    assert len(set(ids)) == 3, done.stderr
    assert all(each.isdecimal() for each in ids)
