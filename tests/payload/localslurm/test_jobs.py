"""Real jobs on the local cluster: accepted, run, ended, and nothing left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jobgen.payload import localslurm
from jobgen.payload.localslurm import processes
from tests.payload.localslurm.cluster import Local
from tests.waiting import until


def test_a_job_runs_and_completes(local: Local) -> None:
    job = local.sbatch("#SBATCH --nodes=2 --job-name=first\necho hello; pwd\n")
    shown = local.wait(job)
    assert (shown["JobState"], shown["ExitCode"], shown["JobName"]) == ("COMPLETED", "0:0", "first")
    assert local.log(job) == f"hello\n{local.home}\n"


@pytest.mark.parametrize(
    ("script", "state", "code"),
    [
        ("exit 7", "FAILED", "7:0"),
        ("kill -SEGV $$", "FAILED", "0:11"),
        ("no-such-command", "FAILED", "127:0"),
        ("exit 0", "COMPLETED", "0:0"),
    ],
)
def test_the_scripts_exit_code_is_the_jobs(
    local: Local, script: str, state: str, code: str
) -> None:
    shown = local.wait(local.sbatch(script))
    assert (shown["JobState"], shown["ExitCode"]) == (state, code)


def test_the_command_line_beats_the_environment_and_that_the_directives(local: Local) -> None:
    script = "#SBATCH --job-name=file --time=1 --partition=file\necho $SLURM_JOB_PARTITION\n"
    env = {"SBATCH_JOB_NAME": "environment", "SBATCH_TIMELIMIT": "2"}
    job = local.sbatch(script, "--job-name=line", env=env)
    shown = local.wait(job)
    assert (shown["JobName"], shown["TimeLimit"]) == ("line", "00:02:00")
    assert local.log(job) == "file\n"


def test_the_batch_shell_finds_slurms_variables(local: Local) -> None:
    script = (
        "#SBATCH --nodes=2 --ntasks-per-node=2 --cpus-per-task=3 --export=NONE\n"
        "echo $SLURM_JOB_NODELIST $SLURM_NNODES $SLURM_NTASKS $SLURM_TASKS_PER_NODE"
        " $SLURM_CPUS_PER_TASK $SLURM_EXPORT_ENV ${SLURM_RESTART_COUNT-none} ${SECRET-gone}\n"
        "scontrol show hostnames\necho $((SLURM_JOB_END_TIME - SLURM_JOB_START_TIME))\n"
    )
    job = local.sbatch(script, "--time=3", env={"SECRET": "x"})
    local.wait(job)
    assert local.log(job) == "local[1-2] 2 4 2(x2) 3 NONE none gone\nlocal1\nlocal2\n180\n"


def test_many_clients_at_once_get_an_id_each(local: Local) -> None:
    with ThreadPoolExecutor(6) as pool:
        said = list(pool.map(lambda _: local.run("sbatch", "--parsable", "--wrap=true"), range(12)))
    ids = [int(s.out) for s in said]
    assert len(set(ids)) == 12
    for job in ids:
        assert local.wait(job)["JobState"] == "COMPLETED"


def test_output_goes_where_the_patterns_say(local: Local) -> None:
    script = "echo out; echo err >&2\n"
    job = local.sbatch(script, "-J", "n", "--output=%x-%j-%%.out", "--error=e-%6j.err")
    local.wait(job)
    assert (local.home / f"n-{job}-%.out").read_text() == "out\n"
    assert (local.home / f"e-{job:06}.err").read_text() == "err\n"


def test_a_missing_output_folder_fails_the_job_as_slurm_does(local: Local) -> None:
    shown = local.wait(local.sbatch("true", "--output=nowhere/x.out"))
    assert (shown["JobState"], shown["Reason"]) == ("FAILED", "JobLaunchFailure")
    assert shown["ExitCode"] == "0:53"


@pytest.mark.parametrize(
    ("words", "text", "code"),
    [
        (["--nodes=99"], "Requested node configuration is not available", 1),
        (["--nodes=0"], "Node count specification invalid", 1),
        (["--nodes=4-2"], "Maximum node count 2 is less than minimum node count 4", 1),
        (["--nodes=x"], '"x" is not a valid node count', 255),
        (["--time=soon"], "Invalid --time specification", 255),
        (["--signal=B:FOO@1"], "Invalid --signal specification", 255),
        (["--begin=foo"], "Invalid --begin specification", 255),
        (["--open-mode=x"], "Invalid --open-mode specification", 255),
        (["--ntasks=x"], 'Invalid numeric value "x" for --ntasks.', 1),
        (["--dependency=afterok:9"], "Job dependency problem", 1),
        (["--array=0-3"], "Invalid job array specification", 1),
        (["--gres=gpu:1"], "Invalid generic resource (gres) specification", 1),
        (["--container-image=x"], "unrecognized option '--container-image=x'", 255),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_no_job(
    local: Local, words: list[str], text: str, code: int
) -> None:
    said = local.run("sbatch", *words, "--wrap=true")
    assert (said.code, said.out) == (code, "")
    assert text in said.err
    assert local.run("squeue", "--noheader", "--states=all").out == ""


def test_a_refusal_is_one_that_jobgen_takes_for_definite(local: Local) -> None:
    from jobgen.scheduler.refusals import is_definite

    for words in (["--nodes=99"], ["--time=soon"], ["--foo"], ["--ntasks=x"]):
        said = local.run("sbatch", *words, "--wrap=true")
        assert is_definite(said.code, said.err), said.err


def test_a_test_only_submits_nothing(local: Local) -> None:
    said = local.run("sbatch", "--test-only", "--nodes=2", "--wrap=true")
    assert (said.code, said.out) == (0, "")
    assert "using 2 processors on nodes local[1-2] in partition local" in said.err
    said = local.run("sbatch", "--test-only", "--nodes=99", "--wrap=true")
    assert said.code == 1
    assert "allocation failure: Requested node configuration is not available" in said.err
    assert local.run("squeue", "--noheader", "--states=all").out == ""


def test_jobs_run_in_turn_where_nodes_are_few(local: Local) -> None:
    (local.state / "slurm.conf").write_text("Nodes=2\nKillWait=1\n")
    first = local.sbatch("sleep 3600", "--nodes=2")
    second = local.sbatch("true", "--nodes=1")
    until(lambda: local.show(second)["Reason"] == "Resources")
    assert local.state_of(second) == "PENDING"
    local.run("scancel", str(first))
    assert local.wait(second)["JobState"] == "COMPLETED"


def test_a_profile_of_one_node_has_one_job_at_a_time(local: Local) -> None:
    one = Local(local.home, nodes=1)
    first, second = one.sbatch("sleep 3600"), one.sbatch("true")
    until(lambda: one.show(second)["Reason"] == "Resources")
    refused = one.run("sbatch", "--nodes=2", "--wrap=true")
    assert "the local cluster has 1 node;" in refused.err
    one.run("scancel", str(first))
    assert one.wait(second)["JobState"] == "COMPLETED"


def test_a_dependent_job_waits_and_one_that_can_never_start_says_so(local: Local) -> None:
    good, bad = local.sbatch("sleep 0.5"), local.sbatch("exit 1")
    after = local.sbatch("true", f"--dependency=afterok:{good}")
    never = local.sbatch("true", f"--dependency=afterok:{bad}")
    gone = local.sbatch("true", f"--dependency=afterok:{bad}", "--kill-on-invalid-dep=yes")
    assert local.wait(after)["JobState"] == "COMPLETED"
    until(lambda: local.show(never)["Reason"] == "DependencyNeverSatisfied")
    assert local.wait(gone)["JobState"] == "CANCELLED"


def test_a_held_job_starts_when_it_is_released(local: Local) -> None:
    job = local.sbatch("true", "--hold")
    until(lambda: local.show(job)["Reason"] == "JobHeldUser")
    local.run("scontrol", "release", str(job))
    assert local.wait(job)["JobState"] == "COMPLETED"


def test_cancel_leaves_no_process_even_of_those_that_hide(local: Local) -> None:
    long = [f"{time.time_ns()}.{number}" for number in range(4)]  # those of this test alone
    script = (
        "trap '' TERM\n"
        f"setsid bash -c 'trap \"\" TERM; echo hidden; sleep {long[0]} & wait' &\n"
        f"(setsid nohup sleep {long[1]} >/dev/null 2>&1 &)\n"
        f"env -i setsid sleep {long[2]} &\n"
        f"srun --ntasks=1 bash -c 'trap \"\" TERM; setsid sleep {long[3]} & echo ready; wait' &\n"
        "wait; wait; wait\n"
    )
    job = local.sbatch(script)
    local.wait_for(job, "ready")
    local.wait_for(job, "hidden")
    until(lambda: sleepers(*long) == set(long))
    local.run("scancel", str(job))
    shown = local.wait(job)
    assert shown["JobState"] == "CANCELLED"
    assert f"*** JOB {job} ON local1 CANCELLED AT" in local.log(job)
    assert local.processes() == []
    assert not sleepers(*long)


def test_a_job_that_is_cancelled_before_it_starts_never_does(local: Local) -> None:
    job = local.sbatch("touch started", "--begin=now+1hour")
    until(lambda: local.show(job)["Reason"] == "BeginTime")
    local.run("scancel", str(job))
    assert local.wait(job)["JobState"] == "CANCELLED"
    assert not (local.home / "started").exists()


def test_cancelling_what_has_ended_changes_nothing(local: Local) -> None:
    job = local.sbatch("true")
    local.wait(job)
    assert local.run("scancel", str(job), "999999").code == 0
    assert local.state_of(job) == "COMPLETED"


def test_a_signal_for_the_batch_shell_reaches_nothing_else(local: Local) -> None:
    script = (
        "trap 'echo shell; stop=1' USR1\n"
        "srun --ntasks=1 bash -c 'trap \"echo heard\" USR1; while :; do sleep 0.1; done' &\n"
        'echo ready; while [ -z "${stop:-}" ]; do wait; done; exit 5\n'
    )
    job = local.sbatch(script)
    local.wait_for(job, "ready")
    local.run("scancel", "--batch", "--signal=USR1", str(job))
    shown = local.wait(job)
    assert shown["ExitCode"] == "5:0"
    assert "heard" not in local.log(job)


def test_the_time_limit_ends_a_job_after_an_early_warning(local: Local) -> None:
    script = "trap 'echo warned' USR1\nsleep 3600 &\nwait; wait\n"
    job = local.sbatch(script, "--time=0:09", "--signal=B:USR1@3")
    shown = local.wait(job)
    assert shown["JobState"] == "TIMEOUT"
    assert local.log(job).startswith("warned\n")
    assert f"*** JOB {job} ON local1 CANCELLED AT" in local.log(job)
    assert "DUE TO TIME LIMIT ***" in local.log(job)


def test_a_job_that_requeues_itself_keeps_its_id_and_its_log(local: Local) -> None:
    script = (
        "#SBATCH --open-mode=append\n"
        "echo start ${SLURM_RESTART_COUNT:-0}\n"
        "[ ${SLURM_RESTART_COUNT:-0} = 2 ] && exit 0\n"
        "trap '' TERM\nscontrol requeue $SLURM_JOB_ID && exit 0\n"
    )
    job = local.sbatch(script)
    shown = local.wait(job)
    assert (shown["JobState"], shown["Restarts"]) == ("COMPLETED", "2")
    starts = [line for line in local.log(job).splitlines() if line.startswith("start")]
    assert starts == ["start 0", "start 1", "start 2"]


def test_a_requeue_is_not_lost_when_the_script_ends_at_once(local: Local) -> None:
    script = '[ -n "${SLURM_RESTART_COUNT:-}" ] || exec scontrol requeue $SLURM_JOB_ID\n'
    jobs = [local.sbatch(script) for _ in range(4)]
    assert [local.wait(job)["Restarts"] for job in jobs] == ["1"] * 4


def test_a_requeued_job_waits_for_its_time_and_can_be_hurried(local: Local) -> None:
    (local.state / "slurm.conf").write_text("RequeueDelay=100\nKillWait=1\n")
    job = local.sbatch('[ -n "${SLURM_RESTART_COUNT:-}" ] || scontrol requeue $SLURM_JOB_ID\n')
    until(lambda: local.show(job)["Reason"] == "BeginTime")
    assert local.state_of(job) == "PENDING"
    local.run("scontrol", "update", f"jobid={job}", "StartTime=now")
    assert local.wait(job)["Restarts"] == "1"


def test_a_job_that_must_not_be_requeued_is_not(local: Local) -> None:
    job = local.sbatch("scontrol requeue $SLURM_JOB_ID; echo said $?\n", "--no-requeue")
    local.wait(job)
    assert "said 1" in local.log(job)


def test_a_job_whose_supervisor_was_killed_is_lost_and_so_are_its_processes(local: Local) -> None:
    job = local.sbatch("setsid sleep 3600 & echo ready; wait\n")
    local.wait_for(job, "ready")
    os.kill(local.supervisor(job), signal.SIGKILL)
    shown = local.wait(job)
    assert shown["JobState"] == "NODE_FAIL"
    until(lambda: local.processes() == [])
    assert local.run("squeue", "--noheader").out == ""


def test_a_job_whose_folder_was_removed_does_not_run_on_unwatched(local: Local) -> None:
    job = local.sbatch("setsid sleep 3600 & echo ready; wait\n")
    local.wait_for(job, "ready")
    supervisor = local.supervisor(job)
    shutil.rmtree(local.state / "jobs" / str(job))
    until(lambda: local.processes() == [])
    until(lambda: processes.process(supervisor) is None)
    (local.state / "active" / str(job)).unlink()


def test_a_client_that_is_killed_leaves_a_whole_job_or_none(local: Local) -> None:
    (local.home / "job.sh").write_text("#!/bin/bash\ntrue\n")
    program = (sys.executable, "-I", "-S", localslurm.FOLDER, "--state", str(local.state))
    for step in range(12):
        client = subprocess.Popen(
            (*program, "sbatch", "job.sh"), cwd=local.home, stdout=subprocess.DEVNULL
        )
        time.sleep(step * 0.01)
        client.kill()
        client.wait()

    def states() -> set[str]:
        return set(local.run("squeue", "--noheader", "--states=all", "--format=%T").out.split())

    # what a killed client has begun may show a moment later
    until(lambda: states() <= {"COMPLETED"}, lambda: str(states()))


def test_the_job_outlives_the_session_that_submitted_it(local: Local) -> None:
    job = local.sbatch("until [ -e go ]; do sleep 0.1; done\n")
    supervisor = local.supervisor(job)
    assert os.getsid(supervisor) == supervisor
    (local.home / "go").touch()
    assert local.wait(job)["JobState"] == "COMPLETED"


def test_a_missing_working_directory_is_told_and_tmp_taken(local: Local) -> None:
    job = local.sbatch("pwd", "--chdir=/no/such", f"--output={local.home}/slurm-%j.out")
    local.wait(job)
    assert "couldn't chdir to `/no/such'" in local.log(job)
    assert local.log(job).endswith("\n/tmp\n")


def test_squeue_shows_what_is_asked_for(local: Local) -> None:
    job = local.sbatch("sleep 3600", "--comment=a|b", "--time=100", "--nodes=2", "-J", "my | job")
    local.wait(job, "RUNNING")
    form = "--format=%i\x1f%T\x1f%r\x1f%N\x1f%l\x1f%D\x1f%k\x1f%j"
    said = local.run("squeue", "--noheader", f"--jobs={job},{job}", "--states=all", form)
    fields = [str(job), "RUNNING", "None", "local[1-2]", "1:40:00", "2", "a|b", "my | job"]
    assert said.out == "\x1f".join(fields) + "\n"
    said = local.run("squeue", "-h", "-j", str(job), "-O", "JobId,State:10,RestartCnt:.3")
    assert said.out == f"{job:<20}RUNNING   " + "  0\n"


def test_squeue_tells_of_an_unknown_job_as_slurm_does(local: Local) -> None:
    said = local.run("squeue", "--jobs=7")
    assert (said.code, said.err) == (1, "slurm_load_jobs error: Invalid job id specified\n")
    assert local.run("squeue", "--noheader", "--jobs=7,7").code == 0


def test_old_jobs_are_forgotten(local: Local) -> None:
    job = local.sbatch("true")
    local.wait(job)
    os.utime(local.state / "jobs" / str(job), (0, 0))
    other = local.sbatch("true")
    local.wait(other)
    assert local.run("squeue", "--noheader", "--states=all", "--format=%i").out == f"{other}\n"
    assert other > job


def test_the_state_is_nobody_elses_business(local: Local) -> None:
    job = local.sbatch("true")
    folder = local.state / "jobs" / str(job)
    assert folder.stat().st_mode & 0o077 == 0


def sleepers(*seconds: str) -> set[str]:
    found = set()
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = line.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:1] == [b"sleep"] and words[1].decode() in seconds:
            found.add(words[1].decode())
    return found
