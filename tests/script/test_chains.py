"""The script of a chain: which job resumes, which hands over, and which has nothing to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.script.job import Job
from tests.script.test_ends import POLLS, UNFINISHED, warn

CHAIN = "{grace: 5m, chain: 3}"
SQUEUE = '#!/bin/bash\ncat "$FAKE_DIR/queue" 2>/dev/null\n'
SCANCEL = '#!/bin/bash\nprintf "%s\\n" "$@" >>"$FAKE_DIR/cancelled"\n'


class Link(Job):
    """A job of a chain; ``number`` is its place."""

    number = 0

    def words(self) -> list[str]:
        return [*super().words(), *([str(self.number)] if self.number else [])]


def build(folder: Path, program: str) -> Link:
    """The run directory of a chain whose jobs 8 and 9 wait."""
    job = Link.make(folder, program, checkpoint=CHAIN)
    assert isinstance(job, Link)
    for name, text in (("squeue", SQUEUE), ("scancel", SCANCEL)):
        (folder / "fake" / name).write_text(text)
        (folder / "fake" / name).chmod(0o755)
    (folder / "submit").mkdir()
    (folder / "submit" / "arrays").write_text("chain\nchain\n")
    (folder / "submit" / "arrays.done").touch()
    for number, name in ((8, "array.1"), (9, "array.2")):
        (folder / "submit" / name).write_text(f"{number}\n")
    return job


def queue(job: Link, text: str) -> None:
    (job.folder / "queue").write_text(text)


def test_a_job_that_saved_hands_over_to_the_one_that_waits(tmp_path: Path) -> None:
    job = build(tmp_path / "run", POLLS)
    queue(job, "8\n9\n")
    process = job.start()
    assert "the next job of the chain resumes" in warn(job, process)
    assert process.returncode == 0
    assert job.state("requeued.0").exists()
    assert not job.state("exit.0").exists()
    assert not (job.folder / "cancelled").exists()
    for path in job.folder.glob("up.*"):
        path.unlink()
    queue(job, "")
    job.number = 1
    process = job.start(8)
    warn(job, process)
    assert process.returncode == UNFINISHED, "no other job waits"
    assert (job.marker(1)["job"], job.marker(1)["rc"]) == ("8", str(UNFINISHED))


@pytest.mark.parametrize("code", [0, 5])
def test_the_jobs_after_the_end_are_cancelled_or_do_nothing(tmp_path: Path, code: int) -> None:
    job = build(tmp_path / "run", f'echo >>"$JOBGEN_RUN_DIR/ran"; exit {code}\n')
    assert job.run().returncode == code
    assert (job.folder / "cancelled").read_text().split() == ["--state=PENDING", "8", "9"]
    ran = job.ran()
    job.number = 1
    late = job.run(8)
    assert late.returncode == 0
    assert f"this run has ended with exit code {code}: nothing to do" in late.stderr
    assert job.ran() == ran


def test_a_killed_job_is_resumed(tmp_path: Path) -> None:
    job = build(tmp_path / "run", 'echo >>"$JOBGEN_RUN_DIR/ran"\n')
    job.state("x").parent.mkdir(parents=True)
    job.state("started.0").symlink_to("7.99")
    job.state("exit.0").write_text("rc=143\nend=killed\n")
    job.number = 1
    assert job.run(8).returncode == 0
    assert job.state("started.1").readlink().name.startswith("8.")
    assert job.marker(1)["end"] == "finished"


def test_two_jobs_of_a_chain_do_not_run_at_a_time(tmp_path: Path) -> None:
    job = build(tmp_path / "run", 'echo >>"$JOBGEN_RUN_DIR/ran"\n')
    job.state("x").parent.mkdir(parents=True)
    job.state("started.0").symlink_to("7.99")
    queue(job, "7\n")
    job.number = 1
    late = job.run(8)
    assert (late.returncode, job.ran()) == (0, 0)
    assert "job 7 of this chain has not ended: nothing to do" in late.stderr
    assert not job.state("started.1").exists()


def test_a_copy_of_a_job_of_a_chain_runs_nothing(tmp_path: Path) -> None:
    job = build(tmp_path / "run", 'echo >>"$JOBGEN_RUN_DIR/ran"\n')
    job.state("x").parent.mkdir(parents=True)
    job.state("claim.1").symlink_to("8")
    job.number = 1
    assert "job 8 already runs" in job.run(10).stderr
    assert job.ran() == 0
