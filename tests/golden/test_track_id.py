"""The ID that trackers get, as bash computes it: equal in all starts, different in each element."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.golden.cases import rendered

TOKEN = "abcdefghijklmnopqrstuvwxyz"
SUBMITTED = {"JOBGEN_TOKEN": TOKEN, "SLURM_ARRAY_JOB_ID": "7"}


def compute(folder: Path, **variables: str) -> str:
    script = rendered("track")["job.sbatch"].content.decode()
    part = script.split("# ---- Trackers")[1].split("# ---- Environment")[0]
    env = {"PATH": "/usr/bin:/bin", "JOBGEN_WORK_DIR": str(folder), **variables}
    text = f'set -u\n:{part}\nprintf %s "$track_id"'
    done = subprocess.run(["bash", "-c", text], env=env, capture_output=True, text=True, check=True)
    return done.stdout


def test_all_starts_of_an_element_have_one_id_and_its_folders(tmp_path: Path) -> None:
    first = compute(tmp_path, **SUBMITTED, SLURM_ARRAY_TASK_ID="1", SLURM_JOB_ID="8")
    again = compute(tmp_path, **SUBMITTED, SLURM_ARRAY_TASK_ID="1", SLURM_JOB_ID="9")
    assert first == again
    assert re.fullmatch("[0-9a-f]{32}", first)
    assert TOKEN not in first
    assert (tmp_path / "track" / "wandb").is_dir()


def test_elements_and_runs_have_ids_of_their_own(tmp_path: Path) -> None:
    other = {**SUBMITTED, "JOBGEN_TOKEN": TOKEN[::-1]}
    ids = [
        compute(tmp_path, **run, SLURM_ARRAY_TASK_ID=element, SLURM_JOB_ID="8")
        for run in (SUBMITTED, other)
        for element in ("1", "2")
    ]
    assert len(set(ids)) == 4


def test_a_job_run_by_hand_has_the_id_of_its_job(tmp_path: Path) -> None:
    by_hand = {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "1"}
    assert compute(tmp_path, **by_hand) == compute(tmp_path, **by_hand, SLURM_JOB_ID="9")
