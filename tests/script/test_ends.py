"""How a job ends: its own exit code, the marker, the warning, the requeue."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.script.job import Job
from tests.waiting import HANG

POLLS = """
echo "start $JOBGEN_RESTART"
touch "$JOBGEN_RUN_DIR/up.$RANK"
for ((i = 0; i < 6000; i++)); do
    if [[ -e $JOBGEN_STOP_FILE ]]; then
        touch "$JOBGEN_STOPPED_FILE"
        echo saved
        exit 0
    fi
    sleep 0.1
done
"""
DEAF = 'touch "$JOBGEN_RUN_DIR/up.$RANK"; exec sleep 3600\n'
REQUEUE = "{grace: 5m, requeue: true, max_requeues: 2}"
"""A grace that is over only where a program takes no notice of the warning."""
UNFINISHED = 98
"""The exit code of a job that stopped before its end and does not start again."""


def requeued(job: Job) -> list[str]:
    path = job.folder / "requeued"
    return path.read_text().split() if path.exists() else []


def warn(job: Job, process: subprocess.Popen[str], sign: signal.Signals = signal.SIGUSR1) -> str:
    """The pre-timeout signal, as Slurm sends it to the batch shell, once the ranks are up."""
    for rank in range(2):
        job.wait_for(job.folder / f"up.{rank}")
    os.kill(process.pid, sign)
    _, err = process.communicate(timeout=HANG)
    return err


@pytest.mark.parametrize("code", [0, 1, 42])
def test_the_jobs_exit_code_is_the_programs(tmp_path: Path, code: int) -> None:
    job = Job.make(tmp_path / "run", f"[[ $RANK != 1 ]] || exit {code}\n")
    before = time.time() - 1
    assert job.run().returncode == code
    marker = job.marker()
    assert (marker["rc"], marker["job"], marker["node"]) == (str(code), "7", "n1")
    assert before <= int(marker["time"]) <= time.time()
    assert marker["end"] == "finished"


def test_a_wrong_number_of_nodes_ends_the_job_at_once(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "run", "true\n")
    job.hosts = ("n1",)
    done = job.run()
    assert done.returncode == 97
    assert "1 nodes (n1), but the job requested 2" in done.stderr
    assert job.marker()["rc"] == "97"


def test_an_elastic_job_starts_with_what_it_got(tmp_path: Path) -> None:
    program = 'echo "$JOBGEN_MIN_WORLD_SIZE..$JOBGEN_WORLD_SIZE" >"$JOBGEN_RUN_DIR/world"\n'
    job = Job.make(tmp_path / "run", program, launcher="torchrun", nodes="2:3")
    (job.folder / "fake" / "torchrun").write_text(
        "#!/bin/bash\nwhile [[ $1 != --no-python ]]; do shift; done\n"
        'export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=0\n"${@:2}"\n'
    )
    (job.folder / "fake" / "torchrun").chmod(0o755)
    done = job.run()
    assert done.returncode == 0, done.stderr
    assert (job.folder / "world").read_text() == "2..3\n"
    job.hosts = ("n1",)
    assert job.run(8).returncode == 0  # the fence: another id
    fresh = Job.make(tmp_path / "fresh", program, launcher="torchrun", nodes="2:3")
    fresh.hosts = ("n1",)
    assert fresh.run().returncode == 97


def test_the_warning_makes_a_stop_file_and_ends_nothing(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "run", POLLS, checkpoint="{grace: 20s, signal: USR2}")
    process = job.start()
    err = warn(job, process, signal.SIGUSR2)
    assert "pre-timeout signal" in err
    assert process.returncode == UNFINISHED, "unfinished, and no success"
    assert requeued(job) == []
    assert job.marker() == {
        **job.marker(),
        "rc": "98",
        "end": "finished",
        "why": "stopped by the pre-timeout signal before its end",
    }


def test_a_program_that_saved_is_put_back_and_leaves_no_exit_marker(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "run", POLLS, checkpoint=REQUEUE)
    (job.folder / "secrets.env").write_text("export A=b\n")
    process = job.start()
    warn(job, process)
    assert process.returncode == 0
    assert requeued(job) == ["7"]
    assert not job.state("exit.0").exists()
    assert job.state("requeued.0").exists()
    assert (job.folder / "secrets.env").exists()


def test_the_next_start_sees_no_stop_file(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "run", POLLS, checkpoint=REQUEUE)
    warn(job, job.start())
    (job.folder / "src" / "program").write_text(
        "#!/bin/bash\n[[ ! -e $JOBGEN_STOP_FILE && ! -e $JOBGEN_STOPPED_FILE ]]\n"
    )
    assert job.run(restart=1).returncode == 0
    assert job.marker(1) == {**job.marker(1), "rc": "0", "end": "finished"}


def test_a_program_that_hears_nothing_is_put_back_when_the_grace_is_over(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "run", DEAF, checkpoint="{grace: 2s, requeue: true}")
    process = job.start()
    for rank in range(2):
        job.wait_for(job.folder / f"up.{rank}")
    begin = time.monotonic()
    os.kill(process.pid, signal.SIGUSR1)
    process.wait(timeout=HANG)
    assert time.monotonic() - begin > 1.5, "it had its grace"
    os.killpg(process.pid, signal.SIGKILL)  # Slurm ends the ranks of a job that it puts back
    process.communicate()
    assert requeued(job) == ["7"]


def test_a_program_that_finishes_after_the_warning_is_not_put_back(tmp_path: Path) -> None:
    program = 'touch "$JOBGEN_RUN_DIR/up.$RANK"\n'
    program += "until [[ -e $JOBGEN_STOP_FILE ]]; do sleep 0.1; done\n"
    job = Job.make(tmp_path / "run", program, checkpoint=REQUEUE)
    process = job.start()
    warn(job, process)
    assert process.returncode == 0
    assert requeued(job) == []
    assert job.marker()["end"] == "finished"


def test_a_program_that_fails_after_the_warning_is_not_put_back(tmp_path: Path) -> None:
    program = 'touch "$JOBGEN_RUN_DIR/up.$RANK"\n'
    program += "until [[ -e $JOBGEN_STOP_FILE ]]; do sleep 0.1; done; exit 5\n"
    job = Job.make(tmp_path / "run", program, checkpoint=REQUEUE)
    process = job.start()
    warn(job, process)
    assert process.returncode == 5
    assert requeued(job) == []


@pytest.mark.parametrize("code", [0, 3])
def test_the_last_start_that_stops_before_its_end_fails_the_job(tmp_path: Path, code: int) -> None:
    """Exit code 0 would let what waits for the job use a half-trained model."""
    program = POLLS.replace("exit 0", f"exit {code}")
    job = Job.make(tmp_path / "run", program, checkpoint=REQUEUE)
    process = job.start(restart=2)
    why = "stopped by the pre-timeout signal, no requeue left"
    assert f"jobgen: {why}\n" in warn(job, process)
    assert process.returncode == UNFINISHED
    assert requeued(job) == []
    assert job.marker(2) == {**job.marker(2), "rc": "98", "end": "finished", "why": why}


def test_the_last_start_that_finishes_after_the_warning_is_a_success(tmp_path: Path) -> None:
    program = 'touch "$JOBGEN_RUN_DIR/up.$RANK"\n'
    program += "until [[ -e $JOBGEN_STOP_FILE ]]; do sleep 0.1; done\n"
    job = Job.make(tmp_path / "run", program, checkpoint=REQUEUE)
    process = job.start(restart=2)
    warn(job, process)
    assert process.returncode == 0
    assert "why" not in job.marker(2)


def test_a_last_start_that_hears_nothing_fails_the_job_when_the_grace_is_over(
    tmp_path: Path,
) -> None:
    stop = "{grace: 2s, requeue: true, max_requeues: 0}"
    job = Job.make(tmp_path / "run", DEAF, checkpoint=stop)
    process = job.start()
    for rank in range(2):
        job.wait_for(job.folder / f"up.{rank}")
    os.kill(process.pid, signal.SIGUSR1)
    process.wait(timeout=HANG)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode == UNFINISHED
    assert "no requeue left" in job.marker()["why"]


def test_a_site_that_refuses_the_requeue_fails_the_job(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "run", POLLS, checkpoint=REQUEUE)
    job.env["FAKE_NO_REQUEUE"] = "1"
    process = job.start()
    why = "stopped by the pre-timeout signal, and scontrol requeue failed"
    assert f"jobgen: {why}\n" in warn(job, process)
    assert process.returncode == UNFINISHED
    assert job.marker() == {**job.marker(), "rc": "98", "end": "finished", "why": why}
    assert not job.state("requeued.0").exists()


@pytest.mark.parametrize("requeue", ["requeue: true, max_requeues: 0", "requeue: false"])
@pytest.mark.parametrize("handles", [True, False])
def test_a_program_that_ends_by_the_signal_to_its_ranks_has_not_finished(
    tmp_path: Path, requeue: str, handles: bool
) -> None:
    """It handled the signal and ended with 0: it saved. One that got no signal has finished."""
    trap = "trap 'exit 0' USR1\n" if handles else ""
    text = f'{trap}touch "$JOBGEN_RUN_DIR/up.$RANK"\n'
    text += "until [[ -e $JOBGEN_RUN_DIR/finish ]]; do sleep 0.1; done\n"
    stop = f"{{grace: 5m, to: ranks, {requeue}}}"
    job = Job.make(tmp_path / "run", text, checkpoint=stop)
    process = job.start()
    for rank in range(2):
        job.wait_for(job.folder / f"up.{rank}")
    os.kill(process.pid, signal.SIGUSR1)
    if not handles:
        job.wait_for(job.state("stop"))
        (job.folder / "finish").touch()
    process.communicate(timeout=HANG)
    assert process.returncode == (UNFINISHED if handles else 0)


# SIGHUP is the kernel's word to a stopped job whose slurmstepd is gone
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_job_that_is_killed_says_so_before_it_dies(
    tmp_path: Path, number: signal.Signals
) -> None:
    job = Job.make(tmp_path / "run", DEAF)
    process = job.start()
    for rank in range(2):
        job.wait_for(job.folder / f"up.{rank}")
    process.send_signal(number)
    job.wait_for(job.state("exit.0"))
    process.communicate(timeout=HANG)
    assert process.returncode == 143
    assert job.marker() == {**job.marker(), "rc": "143", "end": "killed"}


def test_secrets_are_gone_when_the_job_has_ended(tmp_path: Path) -> None:
    program = 'printf "%s" "$TOP" >"$JOBGEN_RUN_DIR/got.$RANK"\n'
    job = Job.make(tmp_path / "run", program, secrets="[TOP]")
    (job.folder / "secrets.env").write_text("export TOP='a b'\\''c'\n")
    assert job.run().returncode == 0
    assert (job.folder / "got.1").read_text() == "a b'c"
    assert not (job.folder / "secrets.env").exists()


def test_a_secret_that_was_not_delivered_ends_the_job(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "run", "true\n", secrets="[TOP]")
    done = job.run()
    assert done.returncode == 97
    assert "secret TOP is not set" in done.stderr


def test_a_signal_during_the_handling_of_another_does_not_end_the_job(tmp_path: Path) -> None:
    """bash remembers it, and ends the next wait with its number."""
    program = 'touch "$JOBGEN_RUN_DIR/up.$RANK"\n'
    program += "until [[ -e $JOBGEN_RUN_DIR/finish ]]; do sleep 0.1; done\n"
    job = Job.make(tmp_path / "run", program, checkpoint="{grace: 5m}")
    held = job.folder / "fake" / "scontrol"
    waits = (
        '"show job") if [[ -e up.0 ]]; then touch held; until [[ -e go ]]; do sleep 0.1; done; fi;'
        ' echo "JobState=RUNNING "'
    )
    held.write_text(held.read_text().replace('"show job") echo "', f'{waits}; echo "'))
    process = job.start()
    for rank in range(2):
        job.wait_for(job.folder / f"up.{rank}")
    os.kill(process.pid, signal.SIGTERM)
    job.wait_for(job.folder / "held")
    os.kill(process.pid, signal.SIGUSR1)
    (job.folder / "go").touch()
    job.wait_for(job.state("stop"))
    (job.folder / "finish").touch()
    process.communicate(timeout=HANG)
    assert process.returncode == 0


def test_a_warning_before_anything_has_started_is_not_lost(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "run", POLLS, checkpoint=REQUEUE)
    slow = job.folder / "fake" / "scontrol"
    waits = 'show hostnames") touch asked; until [[ -e warned ]]; do sleep 0.1; done;'
    slow.write_text(slow.read_text().replace('show hostnames")', waits))
    process = job.start()
    job.wait_for(job.folder / "asked")
    os.kill(process.pid, signal.SIGUSR1)
    (job.folder / "warned").touch()
    process.communicate(timeout=HANG)
    assert process.returncode == 0
    assert requeued(job) == ["7"]


@pytest.mark.parametrize("code", [0, 3])
def test_a_kill_after_the_end_does_not_change_how_it_ended(tmp_path: Path, code: int) -> None:
    """As when the time limit or a preemption comes while the shell removes what it leaves."""
    job = Job.make(tmp_path / "run", f"exit {code}\n", checkpoint=REQUEUE)
    held = 'touch "$FAKE_DIR/ending"; until [[ -e $FAKE_DIR/go ]]; do sleep 0.05; done'
    remove = job.folder / "fake" / "rm"
    remove.write_text(
        f'#!/bin/bash\n[[ "$*" != *secrets.env* ]] || {{ {held}; }}\nexec /bin/rm "$@"\n'
    )
    remove.chmod(0o755)
    process = job.start()
    job.wait_for(job.folder / "ending")
    os.kill(process.pid, signal.SIGTERM)
    (job.folder / "go").touch()
    process.communicate(timeout=HANG)
    assert process.returncode == code
    marker = job.marker()
    assert (marker["rc"], marker["end"]) == (str(code), "finished")
