"""Why a real job failed: read once from its run directory, kept, and shown by show and wait."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from jobgen.app import jobs
from jobgen.app.failures import is_unexplained
from jobgen.app.prepare import prepare
from jobgen.app.submit import submit
from jobgen.app.world import World
from jobgen.cli.output import Ink
from jobgen.cli.screens import jobs as screens
from jobgen.cli.screens.job_data import dump_run
from jobgen.model.record import JobState, RunRecord
from tests.app.conftest import Link

INK = Ink(colour=False, width=80)
RAISES = """\
python3 - <<'EOF'
import os
if os.environ["RANK"] == "1":
    raise KeyError("labels")
EOF
code=$?; [ $RANK = 1 ] || sleep 600; exit $code"""
"""Not from a file in the working directory: one rank would truncate it while the other reads it."""


def fail(world: World, job: Callable[..., Path], run: str, *more: str) -> RunRecord:
    record = submit(world, prepare(world, job(run, "procs_per_node: 2", *more), "here"))
    return jobs.wait(world, [record.alias])[0]


def test_an_exception_of_one_rank_is_the_cause(
    world: World, link: Link, job: Callable[..., Path]
) -> None:
    record = fail(world, job, RAISES)
    assert (record.state, record.exit) == (JobState.FAILED, "1:0")
    cause = record.cause
    assert cause is not None
    assert (cause.rank, cause.code, cause.text) == (1, 1, "KeyError: 'labels'")
    lines = screens.draw_ended(record, INK).split("\n")
    at = next(i for i, line in enumerate(lines) if line.startswith(record.alias))
    why = lines[at + 1 : at + 3]
    assert why == [
        "  why    KeyError: 'labels' (sure)",
        "  where  rank 1 on local1 failed first (exit code 1: Python exception)",
    ]
    assert "  KeyError: 'labels'" in lines[:at]
    before = link.dialled
    shown = jobs.show(world, record.alias)
    assert link.dialled == before, "what is known is not asked for again"
    text = screens.draw_run(shown, world.now(), INK)
    assert text.split("\n")[1:3] == why
    assert text.endswith(f"jobgen logs {record.alias} --rank 1 --stderr -n 50\n")
    data = dump_run(shown)["job"]["cause"]
    assert (data["kind"], data["text"], data["lines"][-1]) == ("exception", *2 * (cause.text,))


def test_a_line_of_setup_that_fails_is_the_cause(world: World, job: Callable[..., Path]) -> None:
    record = fail(world, job, "true", "setup: [no_such_tool --load]")
    cause = record.cause
    assert cause is not None
    assert (cause.rank, cause.code, cause.kind) == (None, 127, "setup")
    assert cause.text == "setup failed: no_such_tool --load"
    text = screens.draw_ended(record, INK)
    assert "no_such_tool: command not found" in text
    assert text.endswith(f"jobgen logs {record.alias} --file job-{record.job}.out -n 20\n")


def test_a_killed_rank_is_most_likely_out_of_memory(world: World, job: Callable[..., Path]) -> None:
    up = "[ $RANK = 0 ] && touch up || { until [ -e up ]; do sleep 0.1; done; kill -KILL $$; }"
    record = fail(world, job, f"echo step 7; {up}; sleep 600")
    text = screens.draw_ended(record, INK)
    assert "  why    killed by a signal from outside (likely)\n" in text
    where = "rank 1 on local1 failed first (exit code 137: SIGKILL"
    assert f"  where  {where}" in text
    assert "\n  step 7\n" in text


def test_logs_that_cannot_be_read_leave_the_cause_open(
    world: World, job: Callable[..., Path], breaks: Callable[..., None]
) -> None:
    record = submit(world, prepare(world, job(RAISES, "procs_per_node: 2"), "here"))
    breaks("dd", "if=*")
    ended = jobs.wait(world, [record.alias])[0]
    assert (ended.state, ended.cause) == (JobState.FAILED, None)
    assert is_unexplained(ended)
    assert "error log" in screens.draw_ended(ended, INK)


def test_the_cause_of_an_earlier_start_is_not_that_of_the_last(
    world: World, job: Callable[..., Path]
) -> None:
    record = fail(world, job, RAISES)
    assert not is_unexplained(record)
    assert is_unexplained(record._replace(restarts=1))
    assert not is_unexplained(record._replace(state=JobState.CANCELLED))
