"""Errors that a job survived are no failure, also where only its logs are known."""

from __future__ import annotations

import pytest

from jobgen.diagnose import Evidence, LogText, RankEnd, find_cause

TRACE = 'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\n    go()\n'
ERROR = f"2026-11-25 05:04:28,100 ERROR train: upload failed\n{TRACE}OSError: 503\n"
STEPS = "".join(f"2026-11-25 05:04:{at},000 INFO step {at} | loss 2.1\n" for at in (30, 35, 40))
DONE = "2026-11-25 05:04:41,000 INFO done after 40 steps\n"
BAR = "training: 100%|████| 40/40 [00:01<00:00, 17 step/s]\n"


def is_failure(**files: str) -> bool:
    logs = tuple(LogText(f"slurm-1.{name}", text) for name, text in files.items())
    return find_cause(Evidence(logs=logs)) is not None


RATES = "".join(f"epoch {at}: loss 2.1, error rate 0.{at}\n" for at in (3, 4, 5))


@pytest.mark.parametrize("after", [STEPS, DONE, RATES, "{'train_runtime': 12.1, 'epoch': 2.0}\n"])
def test_a_training_that_went_on_after_an_error_has_survived_it(after: str) -> None:
    assert is_failure(out=STEPS + ERROR)
    assert not is_failure(out=STEPS + ERROR + after)


@pytest.mark.parametrize(
    "after",
    [
        "done\n",
        BAR,
        "wandb: Synced 3 steps, finished in 3 steps\n",
        "Job finished at Wed Nov 25 05:04:41 UTC 2026\n",
        "step 5: not done with all steps\n",
    ],
)
def test_lines_that_stand_there_after_any_end_prove_nothing(after: str) -> None:
    assert is_failure(out=STEPS + ERROR + after)


def test_ranks_that_were_started_again_and_went_on_have_survived() -> None:
    killed = "srun: error: n2: task 3: Killed\n"
    assert is_failure(out=STEPS + killed)
    assert not is_failure(out=STEPS + killed + STEPS)


@pytest.mark.parametrize(("reason", "final"), [("TIME LIMIT", True), ("JOB REQUEUE", False)])
def test_steps_after_a_requeue_are_those_of_a_new_start(reason: str, final: bool) -> None:
    end = f"slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-25T05:04:35 DUE TO {reason} ***"
    assert is_failure(out=f"{STEPS}{end}\n{STEPS}") is final


def test_a_later_end_of_the_training_in_another_file_counts_by_its_time() -> None:
    assert not is_failure(out=STEPS + DONE, err=ERROR)
    assert is_failure(out=STEPS, err=ERROR)
    assert is_failure(
        out=STEPS + DONE, err=f"{ERROR}srun: error: n2: task 3: Exited with exit code 1\n"
    )
    assert is_failure(out=STEPS + DONE, err=ERROR.replace("05:04:28", "05:04:42"))


def test_a_command_of_the_script_that_failed_before_a_good_end_is_no_failure() -> None:
    script = "/run/slurmd/job00012/slurm_script: line 15: nvidia-smi: command not found\n"
    assert is_failure(out=script)
    assert not is_failure(out=script, rank_0=STEPS + DONE)
    assert is_failure(out=script, rank_0=STEPS + DONE + ERROR.replace("04:28", "04:42"))


def test_a_job_that_failed_by_its_state_or_its_record_has_not_survived() -> None:
    logs = (LogText("0/0/n1.1.out", ERROR + DONE),)
    assert find_cause(Evidence("FAILED", logs=logs)) is not None
    assert find_cause(Evidence(ends=(RankEnd(2.0, "n1", 1, 1),), logs=logs)) is not None


def test_ranks_that_all_ended_with_exit_code_0_have_not_failed() -> None:
    finished = (RankEnd(2.0, "n1", 0, 0), RankEnd(2.0, "n1", 1, 0))
    logs = (LogText("0/0/n1.1.err", TRACE + "OSError: 503"),)
    assert find_cause(Evidence(logs=logs, finished=finished, world=2)) is None
    assert find_cause(Evidence(logs=logs, finished=finished, world=3)) is not None


REPORTS = {
    "destructor": f"{BAR.strip()}Exception ignored in: <function A.__del__>\n{TRACE}KeyError: 1\n",
    "exit": f"Error in atexit._run_exitfuncs:\n{TRACE}RuntimeError: the event loop is closed\n",
    "task": f"Task exception was never retrieved\nfuture: <Task finished>\n{TRACE}OSError: a\n",
    "logging": f"--- Logging error ---\n{TRACE}TypeError: not enough arguments for format string\n"
    'Call stack:\n  File "train.py", line 7, in <module>\n    main()\n'
    "Message: 'step %d of %d'\nArguments: (4,)\n",
}


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_what_python_only_reports_ends_no_program(report: str) -> None:
    assert not is_failure(out=STEPS + report)
    assert is_failure(out=STEPS + report + f"{TRACE}ValueError: a\n")
