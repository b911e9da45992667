"""What the batch shell does about a node that is not fit: here n2, which does not know the head."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ports import reserved_port
from tests.script.job import Job
from tests.waiting import HANG

RAN = 'echo ran >>"$JOBGEN_RUN_DIR/ran"\n'
REQUEUE = "{grace: 2s, requeue: true, max_requeues: 3}"
WHY = "preflight: n2: the name of the head, n1, is not known here"


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return made(tmp_path, checkpoint=REQUEUE)


@pytest.fixture
def port() -> Iterator[int]:
    """One of those that a job takes for its rendezvous: its head listens on it in earnest."""
    with reserved_port(range(20001, 30000)) as number:
        yield number


def job_id(port: int, restart: int = 0) -> int:
    """The id of a job that has this port."""
    return (port - 20000 - 1009 * restart) % 10000


def made(folder: Path, **keys: str) -> Job:
    """A job that looks at its nodes; no name is known on them."""
    job = Job.make(folder, RAN, preflight="auto", **keys)
    getent = folder / "fake" / "getent"
    getent.write_text("#!/bin/bash\nexit 2\n")
    getent.chmod(0o755)
    job.env["PREFLIGHT_SECONDS"] = f"{HANG:.0f}"
    return job


def updated(job: Job) -> list[str]:
    path = job.folder / "updated"
    return path.read_text().split() if path.exists() else []


def test_it_goes_back_into_the_queue_without_the_node(job: Job, port: int) -> None:
    done = job.run(job_id(port))
    assert done.returncode == 0, done.stderr
    assert (job.folder / "requeued").read_text() == f"{job_id(port)}\n"
    assert updated(job) == ["ExcNodeList=n2"]
    assert not job.state("exit.0").exists()
    assert job.state("requeued.0").exists()
    assert job.ran() == 0


def test_what_was_excluded_before_stays_so(job: Job, port: int) -> None:
    job.env["FAKE_EXCLUDED"] = "n5,n6"
    job.run(job_id(port))
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
def test_without_hope_it_ends_and_says_why(
    job: Job, port: int, env: dict[str, str], restart: int
) -> None:
    job.env.update(env)
    done = job.run(job_id(port, restart), restart)
    assert done.returncode == 95, done.stderr
    assert job.marker(restart)["why"] == WHY
    assert job.marker(restart)["end"] == "finished"
    assert updated(job) == []
    assert job.ran() == 0


def test_without_requeue_it_ends_with_95(tmp_path: Path, port: int) -> None:
    job = made(tmp_path)
    done = job.run(job_id(port))
    assert done.returncode == 95
    assert job.marker() | {"rc": "95", "why": WHY} == job.marker()
    assert not (job.folder / "requeued").exists()
    assert WHY.removeprefix("preflight: ") in done.stderr


def test_a_preflight_that_breaks_does_not_stop_the_job(tmp_path: Path) -> None:
    job = made(tmp_path)
    (tmp_path / "bundle" / "preflight_all.sh").write_text("exit 1\n")
    assert job.run().returncode == 0
    assert job.ran() == 2
