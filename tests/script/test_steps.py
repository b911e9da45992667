"""Several programs in one job: in order, each with its own ranks, logs, rendezvous and record."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.script.job import Job
from tests.script.test_ends import REQUEUE, requeued, warn
from tests.waiting import HANG

FIELDS = "$JOBGEN_STEP $RANK/$WORLD_SIZE $SLURMD_NODENAME $RDZV_ID $MASTER_PORT"
PROGRAM = f'echo "{FIELDS} $SIZE"; echo "$JOBGEN_STEP $RANK" >>"$JOBGEN_RUN_DIR/notes"\n'
STEPS = (
    "[{name: train, run: ./program a}, {name: eval, run: ./program b, nodes: 1, env: {SIZE: 7}}]"
)
FINALLY = """'echo "finally $JOBGEN_EXIT_CODE" >>"$JOBGEN_RUN_DIR/notes"'"""


def make(folder: Path, program: str = PROGRAM, steps: str = STEPS, **keys: str) -> Job:
    """A job of two steps: two ranks on two nodes, then one on the first."""
    return Job.make(folder, program, run="", steps=steps, **keys)


def notes(job: Job) -> list[str]:
    path = job.folder / "notes"
    return sorted(path.read_text().splitlines()) if path.exists() else []


def record(job: Job, restart: int = 0) -> list[tuple[str, str]]:
    """The steps that the batch shell recorded: name, and exit code where it has ended."""
    rows = [event.fields for event in job.events(restart) if event.kind == "step"]
    return [(row["step"], row.get("code", "")) for row in rows]


def test_steps_run_one_after_another_with_logs_of_their_own(tmp_path: Path) -> None:
    job = make(tmp_path / "run")
    done = job.run()
    assert done.returncode == 0, done.stderr
    logs = job.folder / "logs" / "0" / "0"
    texts = {
        str(path.relative_to(logs)): path.read_text().strip()
        for path in sorted(logs.rglob("n*.out"))
    }
    assert texts == {
        "eval/n1.0.out": "eval 0/1 n1 7_0_eval 20108 7",
        "train/n1.0.out": "train 0/2 n1 7_0_train 20007",
        "train/n2.1.out": "train 1/2 n2 7_0_train 20007",
    }
    assert record(job) == [("train", ""), ("train", "0"), ("eval", ""), ("eval", "0")]
    exits = [event.fields for event in job.events() if event.kind == "exit"]
    assert sorted((row["step"], row["rank"]) for row in exits) == [
        ("eval", "0"),
        ("train", "0"),
        ("train", "1"),
    ]


@pytest.mark.parametrize(("fails", "ran"), [("train", ["train"]), ("eval", ["train", "eval"])])
def test_the_first_failure_ends_the_job(tmp_path: Path, fails: str, ran: list[str]) -> None:
    program = PROGRAM + f"[[ $JOBGEN_STEP != {fails} || $RANK != 0 ]] || exit 5\n"
    job = make(tmp_path / "run", program, **{"finally": FINALLY})
    done = job.run()
    assert done.returncode == 5
    assert "rank 0 on n1 exited first, with exit code 5" in done.stderr
    assert list(dict(record(job))) == ran
    assert dict(record(job))[fails] == "5"
    assert "finally 5" in notes(job)
    (failed,) = [event.fields for event in job.events() if event.kind == "failed"]
    assert (failed["step"], failed["rank"], failed["code"]) == (fails, "0", "5")


WAITS = """
echo "$JOBGEN_STEP $RANK" >>"$JOBGEN_RUN_DIR/notes"
if [[ $JOBGEN_STEP == eval && $JOBGEN_RESTART == 0 ]]; then
    touch "$JOBGEN_RUN_DIR/up.0" "$JOBGEN_RUN_DIR/up.1"
    until [[ -e $JOBGEN_STOP_FILE ]]; do sleep 0.1; done
    touch "$JOBGEN_STOPPED_FILE"
fi
"""


def test_a_requeue_in_the_second_step_does_not_run_the_first_again(tmp_path: Path) -> None:
    job = make(tmp_path / "run", WAITS, checkpoint=REQUEUE, **{"finally": FINALLY})
    warn(job, job.start())
    assert requeued(job) == ["7"]
    assert record(job)[-1] == ("eval", "98")
    done = job.run(restart=1)
    assert done.returncode == 0, done.stderr
    assert "step train has succeeded in an earlier start: not run again" in done.stderr
    assert notes(job) == ["eval 0", "eval 0", "finally 0", "train 0", "train 1"]
    assert record(job, 1) == [("eval", ""), ("eval", "0")]


def test_a_step_that_ends_after_the_warning_is_the_last_of_this_start(tmp_path: Path) -> None:
    """Its program has finished, so it counts; the next one would have no time."""
    program = WAITS.replace("== eval", "== train").replace('touch "$JOBGEN_STOPPED_FILE"', ":")
    job = make(tmp_path / "run", program, checkpoint=REQUEUE)
    warn(job, job.start())
    assert requeued(job) == ["7"]
    assert record(job) == [("train", ""), ("train", "0")]
    assert job.run(restart=1).returncode == 0
    assert record(job, 1) == [("eval", ""), ("eval", "0")]


def test_a_kill_ends_the_step_and_starts_no_other(tmp_path: Path) -> None:
    program = 'touch "$JOBGEN_RUN_DIR/up.$RANK"; exec sleep 3600\n'
    job = make(tmp_path / "run", program, **{"finally": FINALLY})
    process = job.start()
    for rank in range(2):
        job.wait_for(job.folder / f"up.{rank}")
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=HANG)
    assert process.returncode
    assert set(dict(record(job))) == {"train"}
    assert notes(job) == ["finally 143"]
    assert job.marker()["end"] == "killed"


def test_whoever_keeps_the_files_runs_the_steps_too(tmp_path: Path) -> None:
    job = make(tmp_path / "run", token=False)
    done = job.run()
    assert done.returncode == 0, done.stderr
    assert notes(job) == ["eval 0", "train 0", "train 1"]
    assert "train 0/2 n1" in done.stdout, "the log of rank 0 is shown"
