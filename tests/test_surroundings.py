"""Tests pass in a Slurm job, in a git hook, in the background, on any terminal, with any umask."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SURROUNDINGS = {
    "SLURM_JOB_ID": "1",
    "SLURM_NNODES": "9",
    "SLURM_JOB_NODELIST": "x[1-9]",
    "SLURM_RESTART_COUNT": "4",
    "SBATCH_PARTITION": "other",
    "JOBGEN_CLUSTER": "other",
    "JOBGEN_CONFIG_HOME": "/nonexistent",
    "JOBGEN_STATE_HOME": "/nonexistent",
    "PREFLIGHT_SECONDS": "0",
    "GIT_DIR": "/nonexistent",
    "RANK": "3",
    "WORLD_SIZE": "9",
    "COLUMNS": "20",
    "FORCE_COLOR": "1",
    "TERM": "dumb",
    "LC_ALL": "C",
    "TZ": "Asia/Kathmandu",
    "CI": "true",
    "BASH_ENV": "/nonexistent",
    "HOME": "/nonexistent",
}
TRIED = (
    "tests/app/test_provenance.py",
    "tests/cli/test_main.py",
    "tests/cli/test_init.py::test_leaving_a_question_writes_nothing",
    "tests/payload/localslurm/test_jobs.py::test_the_command_line_beats_the_environment_and_that_the_directives",
    "tests/script/test_fence.py::test_the_first_copy_claims_the_run_and_marks_its_start",
)


def test_tests_do_not_see_who_runs_them() -> None:
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TRIED]
    done = subprocess.run(
        ["sh", "-c", 'umask 077 && trap "" INT && exec "$@"', "sh", *words],
        cwd=ROOT,
        env={**os.environ, **SURROUNDINGS},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
