"""``jobgen diagnose`` as a person and a script read it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import ROOT, Jobgen

TRACE = 'Traceback (most recent call last):\n  File "train.py", line 7, in main\n    go()\n'


def write(tmp_path: Path, text: str) -> None:
    (tmp_path / "slurm-7.out").write_text(text)


def test_cause_place_and_retry_are_the_first_lines(jobgen: Jobgen, tmp_path: Path) -> None:
    lost = "".join(
        f"[rank{r}]: RuntimeError: Connection closed by peer [10.0.0.2]:1\n" for r in (0, 1)
    )
    own = "".join(f"[rank2]: {line}\n" for line in f"{TRACE}KeyError: 'labels'".split("\n"))
    write(tmp_path, own + lost + "srun: error: n2: task 2: Exited with exit code 1\n")
    said = jobgen("diagnose", "slurm-7.out")
    assert said.code == 0
    assert said.out.split("\n")[:4] == [
        "slurm-7.out",
        "  why    KeyError: 'labels' (sure)",
        "  where  rank 2 on n2 failed first (exit code 1: Python exception)",
        "  retry  does not help: the same job will fail again",
    ]
    assert "Evidence  slurm-7.out:4\n" in said.out
    assert "Followed   2 ranks lost the connection to it\n" in said.out
    assert len(said.out.split("\n")) <= 25
    assert said.out.endswith("More: jobgen explain J501\n")


def test_a_script_gets_the_same_as_data(jobgen: Jobgen, tmp_path: Path) -> None:
    write(tmp_path, f"{TRACE}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n")
    data = json.loads(jobgen("diagnose", ".", "--json").out)["data"]
    assert (data["failed"], data["cause"], data["code"]) == (True, "gpu_memory", "J520")
    assert (data["rank"], data["retry"], data["certainty"]) == (None, "no", "sure")
    assert data["evidence"]["line"] == 4
    assert data["fixes"][0]["text"].startswith("set the batch size per GPU to 1 in the program: ")
    assert not any(str(fix["command"]).startswith("jobgen submit") for fix in data["fixes"])


def test_a_log_gets_the_options_of_the_framework_that_its_frames_name(
    jobgen: Jobgen, tmp_path: Path
) -> None:
    frame = '  File "/envs/a/site-packages/transformers/trainer.py", line 9, in train\n    go()\n'
    error = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n"
    write(tmp_path, f"{TRACE}{frame}{error}")
    said = jobgen("diagnose", "slurm-7.out").out
    assert "  1  set --per_device_train_batch_size 1: " in said
    assert "  2  set --gradient_checkpointing=true: " in said


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["none.log"], "no such file or folder: none.log"),
        (["empty.out"], "empty.out is empty"),
    ],
)
def test_a_file_that_shows_nothing_is_refused(
    jobgen: Jobgen, tmp_path: Path, words: list[str], says: str
) -> None:
    (tmp_path / "empty.out").touch()
    said = jobgen("diagnose", *words)
    assert said.code != 0
    assert says in said.err


def test_an_empty_file_beside_others_shows_nothing(jobgen: Jobgen, tmp_path: Path) -> None:
    (tmp_path / "0.err").touch()
    (tmp_path / "1.err").write_text(f"{TRACE}KeyError: 'labels'\n")
    assert "KeyError: 'labels'" in jobgen("diagnose", "0.err", "1.err").out


def test_a_log_may_come_from_a_pipe(tmp_path: Path) -> None:
    text = f"{TRACE}KeyError: 'labels'\n"
    done = subprocess.run(
        [sys.executable, "-m", "jobgen", "diagnose", "-"],
        input=text.encode(),
        capture_output=True,
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
        check=True,
    )
    lines = done.stdout.decode().split("\n")
    assert lines[:2] == ["standard input", "  why    KeyError: 'labels' (sure)"]
    assert "Evidence  -:4" in lines


def test_a_log_without_a_failure_gets_one_remark_at_most(jobgen: Jobgen, tmp_path: Path) -> None:
    write(tmp_path, "step 1 loss 0.5\nstep 2 loss nan\nstep 3 loss nan\n")
    said = jobgen("diagnose", "slurm-7.out")
    assert said.out == (
        "slurm-7.out: no failure found in 1 log file\n"
        "  the loss is not a number from slurm-7.out:2 on: step 2 loss nan\n"
    )


def test_what_is_neither_a_run_nor_a_file_is_refused(jobgen: Jobgen) -> None:
    said = jobgen("diagnose", "logs/none.out")
    assert said.code == 7
    assert "no such file or folder: logs/none.out" in said.err
