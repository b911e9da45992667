"""``submit --in`` of jobs that cannot run inside an allocation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from jobgen.app.inside_allocation import enter_allocation
from jobgen.app.prepare import prepare
from jobgen.app.submit import rehearse_submit
from jobgen.app.world import World
from jobgen.errors import Unfit, Usage

Job = Callable[..., Path]
SLURM = """\
name: there
scheduler: slurm
ssh: {host: there}
paths: {root: /scratch/runs}
nodes: {count: 2, cpus: 8}
network: {fabric: ethernet}
procs_per_node: 1
"""


@pytest.fixture
def there(world: World) -> World:
    (world.cwd / "src" / "there.yaml").write_text(SLURM)
    return replace(world, cwd=world.cwd / "src")


@pytest.mark.parametrize("job_id", ["", "x", "12_3", "-1", "12345678901"])
def test_what_is_no_id_is_refused(there: World, job: Job, job_id: str) -> None:
    ready = prepare(there, job("true"), "./there.yaml")
    with pytest.raises(Usage, match="expected the id of a job"):
        enter_allocation(ready, job_id)


def test_the_local_cluster_has_no_allocations(world: World, job: Job) -> None:
    with pytest.raises(Usage, match="needs a Slurm cluster"):
        enter_allocation(prepare(world, job("true"), "here"), "7")


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("array: 0-3", "array"),
        ("race: [{partition: a}, {partition: b}]", "race"),
        ("checkpoint: {grace: 1m, requeue: true}", "checkpoint.requeue"),
        ("checkpoint: {grace: 1m, chain: 3}", "checkpoint.chain"),
    ],
)
def test_a_key_that_needs_its_own_job_is_named(there: World, job: Job, line: str, key: str) -> None:
    ready = prepare(there, job("true", line), "./there.yaml")
    with pytest.raises(Unfit) as refused:
        enter_allocation(ready, "7")
    (problem,) = refused.value.problems
    assert f"{key} does not go with --in" in problem.message
    assert problem.place is not None
    assert "--set" in problem.hint or "remove it" in problem.hint


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("array: 0-3", "array=null"),
        ("checkpoint: {grace: 1m, requeue: true}", "checkpoint.requeue=false"),
        ("checkpoint: {grace: 1m, chain: 3}", "checkpoint.chain=null"),
    ],
)
def test_each_hint_is_a_way_in(there: World, job: Job, line: str, value: str) -> None:
    ready = prepare(there, job("true", line), "./there.yaml", (value,))
    assert enter_allocation(ready, "7").site.inside == "7"


def test_a_dry_run_shows_srun_and_no_sbatch(there: World, job: Job) -> None:
    ready = enter_allocation(prepare(there, job("true"), "./there.yaml"), "7")
    dry = rehearse_submit(ready)
    (command,) = [step.command for step in dry.steps if step.title == "submit"]
    assert "srun --jobid=7 --overlap --nodes=1" in command
    assert " sbatch " not in command
    assert "submit/in_allocation.sh" in [path for path, _ in dry.files]
