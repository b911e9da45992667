"""``before`` and ``finally``: once on the first node, in order, and however the job ends."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.script.job import Job
from tests.script.test_ends import POLLS, REQUEUE, UNFINISHED, warn
from tests.waiting import HANG

PROGRAM = 'echo program >>"$JOBGEN_RUN_DIR/notes"\n'
BEFORE = """'echo "before on $SLURMD_NODENAME" >>"$JOBGEN_RUN_DIR/notes"'"""
FINALLY = """'echo "finally $JOBGEN_EXIT_CODE" >>"$JOBGEN_RUN_DIR/notes"'"""


def notes(job: Job) -> list[str]:
    path = job.folder / "notes"
    return path.read_text().splitlines() if path.exists() else []


def test_they_run_once_around_the_program(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "run", PROGRAM, before=BEFORE, **{"finally": FINALLY})
    done = job.run()
    assert done.returncode == 0, done.stderr
    assert notes(job) == ["before on n1", "program", "program", "finally 0"]


def test_they_see_setup_environment_and_secrets(tmp_path: Path) -> None:
    shows = """'echo "$VENV $SIZE $TOKEN $(pwd)" >>"$JOBGEN_RUN_DIR/notes"'"""
    keys = {"setup": "export VENV=on", "env": "{SIZE: 7}", "secrets": "[TOKEN]"}
    job = Job.make(tmp_path / "run", "true\n", before=shows, **keys, **{"finally": shows})
    (job.folder / "secrets.env").write_text("export TOKEN=abc\n")
    done = job.run()
    assert done.returncode == 0, done.stderr
    assert notes(job) == [f"on 7 abc {job.folder / 'src'}"] * 2
    assert not (job.folder / "secrets.env").exists()


def test_a_failing_line_of_before_ends_the_job_with_its_code(tmp_path: Path) -> None:
    before = '["echo first", "(exit 7)", "echo third"]'
    job = Job.make(tmp_path / "run", PROGRAM, before=before, **{"finally": FINALLY})
    done = job.run()
    assert done.returncode == 7
    assert "first" in done.stdout
    assert "third" not in done.stdout
    assert "jobgen: n1: before failed: ( exit 7 )" in done.stderr
    assert job.marker()["why"] == "before failed with exit code 7"
    assert notes(job) == ["finally 7"]


@pytest.mark.parametrize(
    ("program", "code", "expected"), [(0, 0, 0), (3, 0, 3), (0, 5, 5), (3, 5, 3)]
)
def test_the_code_of_finally_counts_after_a_success_alone(
    tmp_path: Path, program: int, code: int, expected: int
) -> None:
    last = f'\'echo "finally $JOBGEN_EXIT_CODE" >>"$JOBGEN_RUN_DIR/notes"; (exit {code})\''
    job = Job.make(tmp_path / "run", f"exit {program}\n", **{"finally": last})
    done = job.run()
    assert done.returncode == expected
    assert notes(job) == [f"finally {program}"]
    assert ("finally failed with exit code 5" in done.stderr) == (code == 5)
    marker = job.marker()
    assert (marker["rc"], marker["end"]) == (str(expected), "finished")
    assert marker.get("why") == ("finally failed with exit code 5" if expected == 5 else None)


@pytest.mark.parametrize("sleeps", ["program", "before"])
def test_finally_runs_after_a_kill(tmp_path: Path, sleeps: str) -> None:
    waits = 'touch "$JOBGEN_RUN_DIR/up"; exec sleep 3600'
    keys = {"before": f"'{waits}'"} if sleeps == "before" else {}
    job = Job.make(tmp_path / "run", f"{waits}\n", **keys, **{"finally": FINALLY})
    process = job.start()
    job.wait_for(job.folder / "up")
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=HANG)
    assert notes(job) == ["finally 143"]
    assert (job.marker()["end"], job.marker()["rc"]) == ("killed", "143")


def test_a_requeued_job_runs_finally_at_its_end_alone(tmp_path: Path) -> None:
    keys = {"before": BEFORE, "finally": FINALLY, "checkpoint": REQUEUE}
    job = Job.make(tmp_path / "run", POLLS, **keys)
    warn(job, job.start())
    assert notes(job) == ["before on n1"]
    (job.folder / "src" / "program").write_text("#!/bin/bash\n" + PROGRAM)
    assert job.run(restart=1).returncode == 0
    assert notes(job) == ["before on n1"] * 2 + ["program", "program", "finally 0"]


def test_finally_runs_if_the_job_stops_for_good_before_its_end(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "run", POLLS, checkpoint="{grace: 5m}", **{"finally": FINALLY})
    process = job.start()
    warn(job, process)
    assert process.returncode == UNFINISHED
    assert notes(job) == [f"finally {UNFINISHED}"]


def test_a_second_copy_of_the_job_runs_neither(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "run", PROGRAM, before=BEFORE, **{"finally": FINALLY})
    assert job.run().returncode == 0
    ran = notes(job)
    done: subprocess.CompletedProcess[str] = job.run(number=8)
    assert "job 7 already runs in this run directory" in done.stderr
    assert notes(job) == ran


PARTS = {
    "steps": "[{name: a, run: ./program}, {name: b, run: ./program, nodes: 1}]",
    "groups": "{a: {nodes: 1, run: ./program}, b: {nodes: 1, run: ./program}}",
}


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("before", ["true", "false"])
def test_they_see_the_job_and_no_part_of_it(tmp_path: Path, parts: str, before: str) -> None:
    own = "JOBGEN_(LOG_DIR|STEP|ROUND|WORLD_SIZE|RANKS_PER_NODE|CPUS_PER_RANK)|MASTER_PORT|RDZV_ID"
    shows = f"""env | grep -E "^({own})=" | LC_ALL=C sort >"$JOBGEN_RUN_DIR/$1" """
    (tmp_path / "shows").write_text(shows)
    keys = {"repeat": "2"} if parts == "steps" else {}
    keys |= {"run": "", parts: PARTS[parts], "procs_per_node": "3"}
    first = f'["bash {tmp_path}/shows before", "{before}"]'
    last = f"bash {tmp_path}/shows finally"
    job = Job.make(tmp_path / "run", "true\n", before=first, **keys, **{"finally": last})
    done = job.run()
    assert done.returncode == (before == "false"), done.stderr
    seen = [(job.folder / name).read_text() for name in ("before", "finally")]
    assert "JOBGEN_WORLD_SIZE=" in seen[0]
    assert "JOBGEN_STEP" not in seen[0]
    assert seen[0] == seen[1]


def test_they_run_for_whoever_keeps_the_files(tmp_path: Path) -> None:
    keys = {"before": BEFORE, "finally": FINALLY}
    job = Job.make(tmp_path / "run", PROGRAM, token=False, **keys)
    done = job.run()
    assert done.returncode == 0, done.stderr
    assert notes(job)[0] == "before on n1"
    assert notes(job)[-1] == "finally 0"
