"""A job that is watched: what its plan and its script hold, and that nothing changes without it."""

from __future__ import annotations

import pytest

from jobgen.render import render
from tests.golden.cases import templates
from tests.resolve.made import CPUS, GPUS, LOCAL, job, plan


def start(text: str, cluster: str = GPUS) -> list[str]:
    """The words that start the monitor."""
    found = plan(text, cluster).monitor
    assert found is not None
    return [str(word) for line in found.start for word in line]


@pytest.mark.parametrize("monitor", ["", "off"])
def test_nothing_is_watched_unless_the_job_asks(monitor: str) -> None:
    made = plan(job(monitor=monitor))
    assert made.monitor is None
    assert "monitor" not in made.other
    bundle = render(made, templates())
    assert all(b"monitor" not in file.content for file in bundle.files)
    assert "monitor.sh" not in {file.path for file in bundle.files}


@pytest.mark.parametrize("launcher", ["torchrun", "srun", "deepspeed", "accelerate"])
def test_one_task_a_node_whatever_starts_the_ranks(launcher: str) -> None:
    words = start(job(monitor="30s", launcher=launcher))
    assert words[0] == "srun"
    assert {"--overlap", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1"} <= set(words)
    assert words[-2:] == ["30", '"$monitored"']


def test_the_plan_says_how_often_and_why(monkeypatch: pytest.MonkeyPatch) -> None:
    made = plan(job(monitor="1m30s"))
    assert made.monitor is not None
    assert made.monitor.every == 90
    assert (made.other["monitor"].value, str(made.other["monitor"].place)) == (
        "1m30s",
        "job.yaml:5",
    )


def test_an_elastic_job_watches_the_nodes_that_there_are() -> None:
    words = start(job(monitor="30s", nodes='"1:2"'))
    assert '--nodes="$SLURM_NNODES"' in words
    assert "--no-kill" in words


@pytest.mark.parametrize(("cluster", "binding"), [(GPUS, True), (CPUS, False), (LOCAL, False)])
def test_gpus_are_bound_only_where_there_are_some(cluster: str, binding: bool) -> None:
    words = start(job(monitor="30s", launcher="srun"), cluster)
    assert ("--gpu-bind=none" in words) is binding
    assert "--gres=none" not in words


@pytest.mark.parametrize(("release", "old"), [("21.08", True), ("22.05", False), ("24.11", False)])
def test_before_22_05_a_second_step_takes_no_gpu(release: str, old: bool) -> None:
    cluster = f'{GPUS}slurm_version: "{release}"\n'
    made = plan(job(monitor="30s"), cluster)
    assert ("J266" in {note.code for note in made.notes}) is old
    assert ("--gres=none" in start(job(monitor="30s"), cluster)) is old
    assert "J266" not in {note.code for note in plan(job(), cluster).notes}


def test_a_container_is_not_entered() -> None:
    asked = "{image: /shared/train.sqsh, runtime: pyxis}"
    words = start(job(monitor="30s", container=asked))
    assert not [word for word in words if "container" in word]
