"""What the batch shell does about a node that is not fit: here n2, which does not reach n1."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.script.job import Job
from tests.waiting import HANG

RAN = 'echo ran >>"$JOBGEN_RUN_DIR/ran"\n'
REQUEUE = "{grace: 2s, requeue: true, max_requeues: 3}"
WHY = "preflight: n2: cannot reach the rendezvous host, n1: no answer in 5 s"


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return made(tmp_path, checkpoint=REQUEUE)


def made(folder: Path, **keys: str) -> Job:
    """A job that checks its nodes; on none of them a connection comes about."""
    job = Job.make(folder, RAN, preflight="auto", **keys)
    timeout = folder / "fake" / "timeout"
    timeout.write_text('#!/bin/bash\n[[ $2 == scontrol ]] || exit 124\nshift && "$@"\n')
    timeout.chmod(0o755)
    job.env["PREFLIGHT_SECONDS"] = f"{HANG:.0f}"
    return job


def updated(job: Job) -> list[str]:
    path = job.folder / "updated"
    return path.read_text().split() if path.exists() else []


def test_it_goes_back_into_the_queue_without_the_node(job: Job) -> None:
    done = job.run()
    assert done.returncode == 0, done.stderr
    assert (job.folder / "requeued").read_text() == "7\n"
    assert updated(job) == ["ExcNodeList=n2"]
    assert not job.state("exit.0").exists()
    assert job.state("requeued.0").exists()
    assert job.ran() == 0


def test_what_was_excluded_before_stays_so(job: Job) -> None:
    job.env["FAKE_EXCLUDED"] = "n5,n6"
    job.run()
    assert updated(job) == ["ExcNodeList=n2,n5,n6"]


@pytest.mark.parametrize(
    ("env", "restart"),
    [
        # eight nodes in all, two are needed
        ({"FAKE_EXCLUDED": "n3,n4,n5,n6,n7,n8"}, 0),
        ({}, 3),
        ({"FAKE_NO_REQUEUE": "1"}, 0),
    ],
)
def test_without_hope_it_ends_and_says_why(job: Job, env: dict[str, str], restart: int) -> None:
    job.env.update(env)
    done = job.run(restart=restart)
    assert done.returncode == 95, done.stderr
    assert job.marker(restart)["why"] == WHY
    assert job.marker(restart)["end"] == "finished"
    assert updated(job) == []
    assert job.ran() == 0


def test_without_requeue_it_ends_with_95(tmp_path: Path) -> None:
    job = made(tmp_path)
    done = job.run()
    assert done.returncode == 95
    assert job.marker() | {"rc": "95", "why": WHY} == job.marker()
    assert not (job.folder / "requeued").exists()
    assert WHY.removeprefix("preflight: ") in done.stderr


def test_a_preflight_that_breaks_does_not_stop_the_job(tmp_path: Path) -> None:
    job = made(tmp_path)
    (tmp_path / "bundle" / "preflight.sh").write_text("exit 1\n")
    assert job.run().returncode == 0
    assert job.ran() == 2
