"""A rank that has ended well while the others wait for it is reported, once."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from tests.script.job import Job
from tests.waiting import HANG, until

WAITS = "until [[ -e $JOBGEN_RUN_DIR/end ]]; do sleep 0.1; done\n"
LEAVES = f"[[ $RANK == 0 ]] || exit 0\n{WAITS}"
WORDS = "jobgen: rank 1 on n2 exited with 0, but then no rank wrote anything for"


def quick(folder: Path, program: str, before_each_look: str = "true") -> Job:
    """A job that reports a silence of two seconds, and counts how often it looks for one."""
    job = Job.make(folder / "run", program)
    text = job.script.read_text()
    job.script.write_text(text.replace("silence=600", "silence=2"))
    assert job.script.read_text() != text
    find = job.folder / "fake" / "find"
    count = '[[ "$*" != *-printf* ]] || printf . >>"$FAKE_DIR/looks"'
    find.write_text(f'#!/bin/bash\n{before_each_look}\n{count}\nexec {shutil.which("find")} "$@"\n')
    find.chmod(0o755)
    return job


def looks(job: Job) -> int:
    """How often the sizes of the ranks' files were read."""
    path = job.folder / "looks"
    return path.stat().st_size if path.exists() else 0


def finish(job: Job, ready: Callable[[], object], what: str) -> str:
    """Run it until something has come, let the ranks end, and give what the job's log says."""
    process = job.start()
    until(ready, what)
    (job.folder / "end").touch()
    _, err = process.communicate(timeout=HANG)
    assert process.returncode == 0, err
    return err


def silences(job: Job) -> list[tuple[str, int | None, int | None]]:
    events = [event for event in job.events() if event.kind == "silent"]
    return [(event.node, event.rank, event.read_number("seconds")) for event in events]


def test_a_rank_that_the_others_wait_for_is_reported_once(tmp_path: Path) -> None:
    job = quick(tmp_path, LEAVES)
    process = job.start()
    until(lambda: silences(job), "the report")
    seen = looks(job)
    time.sleep(3)
    (job.folder / "end").touch()
    _, err = process.communicate(timeout=HANG)
    assert process.returncode == 0
    assert silences(job) == [("n2", 1, 2)]
    assert err.count(WORDS) == 1
    assert looks(job) == seen, "it is not looked for a second time"


def test_while_another_rank_writes_nothing_is_reported(tmp_path: Path) -> None:
    writes = 'echo >>"$JOBGEN_LOG_DIR/n1.0.out"'
    job = quick(tmp_path, LEAVES, before_each_look=writes)
    err = finish(job, lambda: looks(job) > 5, "looks for a silence")
    assert (silences(job), WORDS in err) == ([], False)


def test_the_files_of_very_many_ranks_are_looked_at_too(tmp_path: Path) -> None:
    """Their names are more than one command line can hold: 2 MiB with the usual limits."""
    writes = 'echo >>"$JOBGEN_LOG_DIR/n1.0.out"'
    job = quick(tmp_path, LEAVES, before_each_look=writes)
    logs = job.folder / "logs" / "0" / "0"
    logs.mkdir(parents=True)
    for number in range(20_000):
        (logs / f"{'n' * 100}.{number}.out").touch()
    err = finish(job, lambda: looks(job) > 5 or silences(job), "looks for a silence")
    assert (silences(job), WORDS in err) == ([], False)


def test_where_all_ranks_have_left_nobody_waits(tmp_path: Path) -> None:
    """The launcher may take its time: torchrun's exit barrier, say."""
    job = quick(tmp_path, "exit 0\n")
    srun = job.folder / "fake" / "srun"
    wait = 'until [[ -e $FAKE_DIR/end ]]; do sleep 0.1; done\nexit "$rc"\n'
    srun.write_text(srun.read_text().replace('exit "$rc"\n', wait))
    err = finish(job, lambda: looks(job) > 5, "looks for a silence")
    assert (silences(job), err) == ([], "")


def test_nothing_is_read_before_a_rank_has_ended_well(tmp_path: Path) -> None:
    job = quick(tmp_path, WAITS)
    began, counts = time.monotonic(), []

    def has_waited() -> bool:
        if len([*job.state("events").glob("0.*")]) < 2 or time.monotonic() < began + 5:
            return False
        counts.append(looks(job))  # the ranks end well from here on
        return True

    err = finish(job, has_waited, "the ranks")
    assert (counts, silences(job), err) == ([0], [], "")


def test_a_job_of_one_rank_looks_for_none(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "run", "true\n", nodes="1")
    assert "report_silence" not in job.script.read_text()
