"""What show and wait say of ranks, in words and as data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jobgen.app.jobs import RunView
from jobgen.app.program_parts import find_failed_part
from jobgen.cli.output import Ink
from jobgen.cli.screens import job_table, jobs
from jobgen.cli.screens.job_data import dump_job
from jobgen.cli.screens.ranks import describe_ranks, describe_steps
from jobgen.model.record import JobState, Login, RunRecord, Site
from tests.cli.conftest import Jobgen

SITE = Site("testbed", "slurm", Login("local"), "/runs")


def run(restarts: int = 0, state: JobState = JobState.FAILED, **submission: Any) -> RunRecord:
    record = RunRecord("t" * 26, "llama-3", "llama", SITE, "0", 1.0, state=state, exit="7:0")
    return record._replace(ended=state.final, restarts=restarts, submission=submission)


def test_the_rank_that_failed_first_is_named_with_its_node_and_code() -> None:
    record = run(failures=[[1, "n2", 1, 7, 0]])
    assert describe_ranks(record) == ["rank 1 on n2 failed first (exit code 7)"]
    text = jobs.draw_ended(record, Ink(colour=False, width=80))
    assert "\n  rank 1 on n2 failed first (exit code 7)\n" in text
    assert text.endswith("  error log  jobgen logs llama-3 --rank 1 --stderr -n 50\n")
    failure = {"start": 1, "node": "n2", "rank": 1, "code": 7, "signal": 0, "task": ""}
    assert dump_job(record)["failures"] == [failure]


@pytest.mark.parametrize(
    ("state", "last"),
    [
        (JobState.CANCELLED, "  logs  jobgen logs llama-3\n"),
        (JobState.TIMEOUT, "  last lines  jobgen logs llama-3 -n 20\n"),
        (JobState.NODE_FAIL, "  last lines  jobgen logs llama-3 -n 20\n"),
        (JobState.OUT_OF_MEMORY, "  error log  jobgen logs llama-3 -n 20\n"),
    ],
)
def test_only_an_error_has_an_error_log(state: JobState, last: str) -> None:
    ink = Ink(colour=False, width=80)
    assert jobs.draw_ended(run(state=state), ink).endswith(last)
    text = jobs.draw_run(RunView(run(state=state), (), ()), 2.0, ink)
    assert ("error log" in text) == ("error log" in last)
    assert text.count("jobgen logs llama-3") == 1 + (state is not JobState.CANCELLED)


def test_a_node_that_failed_before_its_ranks_is_named_alone() -> None:
    record = run(failures=[[1, "n2", None, 1, 0]])
    assert describe_ranks(record) == ["n2 failed first, before its ranks started (exit code 1)"]
    text = jobs.draw_ended(record, Ink(colour=False, width=80))
    assert text.endswith("  error log  jobgen logs llama-3 -n 20\n")
    assert dump_job(record)["failures"][0]["rank"] is None


def test_a_job_stopped_before_its_end_is_explained_with_the_command_that_goes_on() -> None:
    why = "stopped by the pre-timeout signal with no requeue left"
    record = run(restarts=1)._replace(exit="98:0", reason=why)
    ink = Ink(colour=False, width=80)
    command = "jobgen submit job.yaml  # resumes if checkpoint.dir is set"
    assert jobs.draw_ended(record, ink) == (
        f"llama-3  FAILED ({why}, exit code 98, 1 restart)\n  to go on  {command}\n"
    )
    text = jobs.draw_run(RunView(record, (), ()), 2.0, ink)
    assert f"  {why}, exit code 98, 1\n  restart\n" in text
    assert text.endswith(f"  to go on  {command}\n")
    assert "to go on" not in jobs.draw_run(RunView(run(), (), ()), 2.0, ink)


@pytest.mark.parametrize(
    ("code", "number", "words"),
    [
        (137, 9, "exit code 137: SIGKILL, often the out-of-memory killer"),
        (139, 11, "exit code 139: SIGSEGV, segmentation fault"),
        (192, 64, "exit code 192: SIGRTMAX"),
        (160, 32, "exit code 160: signal 32"),
        (255, 0, "exit code 255: -1, an invalid option of srun, or a lost ssh connection"),
        (127, 0, "exit code 127: command not found"),
    ],
)
def test_a_signal_has_its_name(code: int, number: int, words: str) -> None:
    record = run(failures=[[1, "n2", 1, code, number]])
    assert describe_ranks(record) == [f"rank 1 on n2 failed first ({words})"]


def test_where_clocks_cannot_tell_both_are_named() -> None:
    record = run(failures=[[1, "n2", 1, 137, 9], [1, "n1", 0, 1, 0]])
    assert describe_ranks(record)[1] == "rank 0 on n1 failed in the same second (exit code 1)"


def test_of_earlier_starts_nothing_is_said() -> None:
    record = run(restarts=1, failures=[[1, "n2", 1, 7, 0]], silences=[[1, "n1", 0, 600]])
    assert describe_ranks(record) == []
    assert jobs.draw_ended(record, Ink(colour=False, width=80)).endswith("llama-3 -n 20\n")
    assert len(dump_job(record)["failures"]) == 1


def test_of_an_array_each_element_has_its_first_failure() -> None:
    """Elements start again each by itself: none has the newest start of the whole run."""
    record = run(
        restarts=1,
        failures=[[1, "n2", 1, 7, 0, "3"], [2, "n1", 0, 9, 0, "12"]],
        elements={"RUNNING": 2, "FAILED": 2},
    )._replace(shape={"elements": 4})
    assert describe_ranks(record) == [
        "element 3: rank 1 on n2 failed first (exit code 7)",
        "element 12: rank 0 on n1 failed first (exit code 9)",
    ]
    text = jobs.draw_run(RunView(record, (), ()), 2.0, Ink(colour=False, width=80))
    assert "\n  elements: 2 running, 2 failed\n" in text
    assert "jobgen logs llama-3 --task 3 --rank 1 --stderr -n 50" in text


def test_a_rank_that_the_others_may_wait_for_is_named_while_the_job_runs() -> None:
    record = run(state=JobState.RUNNING, silences=[[1, "n2", 1, 600]])
    (text,) = describe_ranks(record)
    assert text.startswith("rank 1 on n2 ended with exit code 0, and then no rank wrote anything")
    assert "for 10m" in text
    silence = {"start": 1, "node": "n2", "rank": 1, "seconds": 600, "task": ""}
    assert dump_job(record)["silences"] == [silence]


def test_a_run_of_an_older_version_has_none() -> None:
    record = run()
    assert describe_ranks(record) == []
    data = dump_job(record)
    assert (data["failures"], data["silences"]) == ([], [])


def test_what_a_node_calls_itself_cannot_act_on_the_terminal() -> None:
    record = run(failures=[[1, "n\x1b[2J", 1, 7, 0]], silences=[[1, "n\x1b[2J", 1, 600]])
    assert not any("\x1b" in text for text in describe_ranks(record))


def row(record: RunRecord, **changes: Any) -> str:
    ink = Ink(colour=False, width=100)
    return job_table.draw_jobs([record._replace(**changes)], 110.0, ink, clipped=False)


def test_a_held_job_has_no_start_and_an_unanswered_question_is_marked() -> None:
    waiting = run(state=JobState.PENDING)._replace(exit="", updated=100.0, started="12:50")
    assert "starts 12:50" in row(waiting, reason="Priority")
    for reason in ("JobHeldUser", "JobHeldAdmin", "job requeued in held state"):
        assert "starts" not in row(waiting, reason=reason)
        assert "held" in row(waiting, reason=reason)
    assert "~PENDING" not in row(waiting)
    assert "~PENDING" in row(waiting, submission={"silent": 105.0})
    assert "~PENDING" in row(waiting, updated=900.0)


def test_following_a_job_that_has_ended_offers_no_way_to_detach(
    jobgen: Jobgen, tmp_path: Path
) -> None:
    lines = "name: p\nnodes: 1\nprocs_per_node: 1\ntime: 1h\nlauncher: plain\nrun: echo done\n"
    (tmp_path / "job.yaml").write_text(lines)
    assert jobgen("submit", "job.yaml", "-c", "local", "-q", "--wait").code == 0
    said = jobgen("logs", "p-1", "-f")
    assert "done" in said.out
    assert "Ctrl-C" not in said.err


def run_steps(*rows: list[Any], restarts: int = 0, state: JobState = JobState.FAILED) -> RunRecord:
    shape = {"steps": ["prepare", "train", "eval"]}
    return run(restarts, state, steps=list(rows))._replace(shape=shape)


def test_steps_are_listed_with_how_they_ended_and_how_long_they_took() -> None:
    prepared, train = [1, "prepare", 0.0, 60.0, 0, "0"], [1, "train", 60.0, 65.0, 3, "0"]
    record = run_steps(prepared, train)
    assert describe_steps(record) == [
        "step prepare: succeeded after 1m00s",
        "step train: failed with exit code 3 after 5s",
        "not started: eval",
    ]
    assert find_failed_part(record) == "train"
    text = jobs.draw_run(RunView(record, (), ()), 2.0, Ink(colour=False, width=80))
    assert "\n  step train: failed with exit code 3 after 5s\n" in text
    shown = dump_job(record)["steps"]
    assert [(row["name"], row["code"]) for row in shown] == [("prepare", 0), ("train", 3)]


def test_a_step_that_slurm_ended_with_the_job_has_not_failed() -> None:
    record = run_steps([1, "train", 60.0, 65.0, 143, "0"])._replace(state=JobState.TIMEOUT)
    assert "step train: ended with the job after 5s" in describe_steps(record)
    assert find_failed_part(record) == ""
    failed = record._replace(state=JobState.FAILED)
    assert "step train: failed with exit code 143 after 5s" in describe_steps(failed)
    assert find_failed_part(failed) == "train"


def test_many_runs_of_steps_are_folded_down_to_what_matters() -> None:
    names = [f"train-{index}" for index in range(1, 41)]
    rows = [[1, name, 0.0, 9.0, int(name == "train-2"), "0"] for name in names[:20]]
    record = run(steps=rows)._replace(shape={"steps": names})
    assert describe_steps(record) == [
        "11 steps: succeeded",
        "step train-2: failed with exit code 1 after 9s",
        *(f"step train-{index}: succeeded after 9s" for index in range(13, 21)),
        f"not started: {', '.join(names[20:28])} and 12 more",
    ]


def test_the_command_for_the_error_names_the_step() -> None:
    record = run_steps([1, "train", 60.0, 65.0, 3, "0"])
    record = record._replace(submission={**record.submission, "failures": [[1, "n1", 0, 3, 0]]})
    text = jobs.draw_ended(record, Ink(colour=False, width=80))
    assert text.endswith("jobgen logs llama-3 --step train --rank 0 --stderr -n 50\n")


def test_the_newest_start_of_a_step_counts() -> None:
    first, again = [1, "train", 0.0, 9.0, 98, "0"], [2, "train", 20.0, None, None, "0"]
    running = run_steps(first, again, restarts=1, state=JobState.RUNNING)
    assert describe_steps(running) == ["step train: running", "not started: prepare, eval"]
    waiting = run_steps(first, state=JobState.PENDING)
    assert describe_steps(waiting)[0] == "step train: stopped by the pre-timeout signal after 9s"


def test_a_job_with_one_program_has_no_steps() -> None:
    assert describe_steps(run()) == []
    assert "steps" not in dump_job(run())
