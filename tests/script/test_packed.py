"""The workers of a packed sweep: who runs which element, and what counts as its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.resolve.made import CPUS, GPUS
from tests.script.job import Job

SCONTROL = """#!/bin/bash
case "$1 $2" in
    "show hostnames") echo n1 ;;
    "show job") echo "JobId=$4 JobState=RUNNING PreemptTime=None" ;;
esac
"""
SQUEUE = """#!/bin/bash
echo '7.batch batch'
"""
PROGRAM = """
echo "$SLURM_ARRAY_TASK_ID $JOBGEN_RESTART $LR" >>"$JOBGEN_RUN_DIR/ran"
[[ $LR != bad ]] || exit 3
"""


def made(
    folder: Path,
    values: str,
    program: str = PROGRAM,
    *,
    cluster: str = CPUS,
    token: bool = True,
    workers: int = 2,
    ranks: int = 1,
) -> Job:
    """A sweep of LR on one node with so many workers, each for so many ranks."""
    size = {"gpus_per_node" if cluster == GPUS else "procs_per_node": str(workers * ranks)}
    sweep = f"{{grid: {{LR: [{values}]}}, pack: {{gpus: {ranks}}}}}"
    job = Job.make(folder, program, cluster=cluster, token=token, nodes="1", sweep=sweep, **size)
    job.hosts = ("n1",)
    for name, text in (("scontrol", SCONTROL), ("squeue", SQUEUE)):
        (folder / "fake" / name).write_text(text)
        (folder / "fake" / name).chmod(0o755)
    return job


def list_runs(job: Job) -> list[str]:
    return sorted((job.folder / "ran").read_text().splitlines())


def test_each_element_runs_once_and_a_bad_one_fails_the_job_alone(tmp_path: Path) -> None:
    job = made(tmp_path / "run", "1e-3, bad, 1e-2, 3e-2, 1e-1")
    done = job.run()
    assert done.returncode == 1, done.stderr
    assert list_runs(job) == ["0 0 1e-3", "1 0 bad", "2 0 1e-2", "3 0 3e-2", "4 0 1e-1"]
    ends = [job.state("exit.0", str(i)).read_text().split("\n")[0] for i in range(5)]
    assert ends == ["rc=0", "rc=3", "rc=0", "rc=0", "rc=0"]
    # a requeue, or a copy that Slurm starts after the end
    again = job.run(restart=1)
    assert again.returncode == 1, again.stderr
    assert len(list_runs(job)) == 5


def test_a_second_copy_of_the_job_runs_nothing(tmp_path: Path) -> None:
    job = made(tmp_path / "run", "1, 2")
    assert job.run(7).returncode == 0
    copy = job.run(8)
    assert copy.returncode == 0
    assert "job 7 already runs in this run directory" in copy.stderr
    assert len(list_runs(job)) == 2


def test_by_hand_each_job_runs_all_elements(tmp_path: Path) -> None:
    job = made(tmp_path / "run", "1, 2, 3", token=False)
    for number in (7, 8):
        done = job.run(number)
        assert done.returncode == 0, done.stderr
    assert list_runs(job) == sorted(2 * ["0 0 1", "1 0 2", "2 0 3"])
    assert (job.folder / "logs" / "8" / "2" / "0").is_dir()


def test_an_element_that_was_cancelled_is_not_taken(tmp_path: Path) -> None:
    job = made(tmp_path / "run", "1, 2, 3")
    job.state("cancel", "1").parent.mkdir(parents=True)
    job.state("cancel", "1").touch()
    assert job.run().returncode == 1
    assert list_runs(job) == ["0 0 1", "2 0 3"]


def test_an_element_whose_end_cannot_be_recorded_is_not_run_again(tmp_path: Path) -> None:
    program = PROGRAM + 'rm -rf "$JOBGEN_STATE_DIR"; touch "$JOBGEN_STATE_DIR"\n'
    job = made(tmp_path / "run", "1, 2", program)
    done = job.run()
    assert done.returncode == 1
    assert list_runs(job) == ["0 0 1", "1 0 2"]
    assert "element 0 has not recorded its end: see logs/job-7_0.out" in done.stderr


EVENTS = "v=1 time=1795268400.1 kind={} node=n1 rank={} {}\n"


@pytest.mark.parametrize(
    ("ends", "runs", "code"),
    [
        ((("0", "code=0 signal=0"), ("1", "code=0 signal=0")), 0, 0),
        ((("0", "code=3 signal=0"), ("1", "code=143 signal=15")), 0, 1),
        ((("0", "code=137 signal=9"), ("1", "code=143 signal=15")), 1, 0),
        ((("0", "code=0 signal=0"),), 1, 0),
    ],
    ids=["all ended", "one failed", "all were killed", "one has no end"],
)
def test_an_attempt_whose_shell_was_killed_counts_if_its_ranks_ended_by_themselves(
    tmp_path: Path, ends: tuple[tuple[str, str], ...], runs: int, code: int
) -> None:
    program = 'echo "$JOBGEN_RESTART" >>"$JOBGEN_RUN_DIR/ran"\n'
    job = made(tmp_path / "run", "1", program, workers=1, ranks=2)
    folder = job.state("events")
    folder.mkdir(parents=True)
    job.state("started.0").symlink_to("7.4000000")
    for rank, words in ends:
        record = EVENTS.format("start", rank, "attempt=0") + EVENTS.format("exit", rank, words)
        (folder / f"0.n1.{rank}").write_text(record)
    done = job.run()
    assert done.returncode == code, done.stderr
    ran = job.folder / "ran"
    assert (ran.read_text().split() if ran.exists() else []) == ["1", "1"] * runs


CACHES = """
op=$TORCH_EXTENSIONS_DIR/op
mkdir -p "$op"
lock=$([[ -e $op/lock ]] && echo yes)
echo "$SLURM_ARRAY_TASK_ID built=$(cat "$op/built" 2>/dev/null) lock=$lock" >>"$JOBGEN_RUN_DIR/ran"
echo "$TORCH_EXTENSIONS_DIR" >>"$JOBGEN_RUN_DIR/folders"
echo "$SLURM_ARRAY_TASK_ID" >"$op/built"
touch "$op/lock"
until (($(wc -l <"$JOBGEN_RUN_DIR/folders") >= WORKERS)); do sleep 0.02; done
"""


def test_a_worker_passes_its_caches_on_without_locks(tmp_path: Path) -> None:
    program = CACHES.replace("WORKERS", "1")
    job = made(tmp_path / "run", "1, 2, 3", program, cluster=GPUS, workers=1)
    done = job.run()
    assert done.returncode == 0, done.stderr
    assert list_runs(job) == ["0 built= lock=", "1 built=0 lock=", "2 built=1 lock="]
    assert list(job.tmp.iterdir()) == []


def test_workers_have_caches_of_their_own(tmp_path: Path) -> None:
    program = CACHES.replace("WORKERS", "2")
    job = made(tmp_path / "run", "1, 2", program, cluster=GPUS)
    done = job.run()
    assert done.returncode == 0, done.stderr
    assert list_runs(job) == ["0 built= lock=", "1 built= lock="]
    assert len({*(job.folder / "folders").read_text().split()}) == 2
