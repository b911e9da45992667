from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from jobgen.app import jobs, logs
from jobgen.app.plan_problems import refuse_failing
from jobgen.app.prepare import prepare
from jobgen.app.submit import rehearse_submit, submit
from jobgen.app.world import World
from jobgen.errors import CheckFailed, Invalid, JobgenError, Unreachable
from jobgen.follow import Lines, View
from jobgen.model.observation import format_mark
from jobgen.model.record import JobState
from jobgen.submission.exchange import TOKEN
from tests.app.conftest import Link

Job = Callable[..., Path]


def shown(world: World, ref: str) -> str:
    """All lines that ``logs`` shows of a job."""
    blocks = logs.show(world, ref, View(collapse=False))
    return "".join(text + "\n" for block in blocks for text in block.list_texts())


def test_the_dry_run_tells_exactly_what_a_submit_sends(world: World, link: Link, job: Job) -> None:
    ready = prepare(world, job("hostname"), "here")
    told = [step.script for step in rehearse_submit(ready).steps if step.script]
    assert link.dialled == 0
    record = submit(world, ready)
    sent = [
        re.sub(r"\b[0-9a-f]{12}\b", "NONCE", text)
        .replace(format_mark(record.token), format_mark(TOKEN))
        .replace(record.token, TOKEN)
        .replace(record.token[:8], TOKEN[:8])
        for text in link.sent[: len(told)]
    ]
    assert sent == told
    jobs.wait(world, [record.alias])


def test_a_submit_takes_few_calls(world: World, link: Link, job: Job) -> None:
    record = submit(world, prepare(world, job("hostname"), "here"))
    assert len(link.sent) <= 3
    jobs.wait(world, [record.alias])


def test_a_job_runs_and_its_result_is_known_to_a_new_process(world: World, job: Job) -> None:
    record = submit(world, prepare(world, job("echo to be seen"), "here"))
    assert record.job is not None
    (ended,) = jobs.wait(world, [record.alias])
    assert ended.state is JobState.COMPLETED
    again = World(world.environ, world.cwd, world.home, say=lambda _: None)
    assert again.ledger.get("@last").state is JobState.COMPLETED
    assert "to be seen" in shown(again, "@last")


def test_a_failing_program_fails_its_job(world: World, job: Job) -> None:
    record = submit(world, prepare(world, job("exit 7"), "here"))
    (ended,) = jobs.wait(world, [record.alias])
    assert (ended.state, ended.exit) == (JobState.FAILED, "7:0")


def test_following_goes_on_after_the_link_was_cut(world: World, link: Link, job: Job) -> None:
    wait = "until [[ -e go ]]; do sleep 0.1; done"
    program = f"echo line 1; echo line 2; {wait}; for i in 3 4 5 6; do echo line $i; done"
    record = submit(world, prepare(world, job(program), "here"))
    seen: list[str] = []
    events: list[str] = []
    quick = World(
        world.environ, world.cwd, world.home, say=world.say, dial=world.dial, sleep=lambda _: None
    )
    for item in logs.follow(quick, record.alias, View(collapse=False)):
        if isinstance(item, Lines):
            seen += item.list_texts()
            link.cut = "line 2" in seen and "lost" not in events
        else:
            events.append(item.kind)
            link.cut = link.cut and item.kind != "lost"
            if item.kind == "back":
                Path(record.directory, "src", "go").touch()
    assert [text for text in seen if text.startswith("line")] == [f"line {i}" for i in range(1, 7)]
    assert "lost" in events
    assert events.index("back") > events.index("lost")
    assert events[-1] == "end"


def test_the_last_lines_of_a_long_log_are_read_without_the_rest(world: World, job: Job) -> None:
    record = submit(world, prepare(world, job("seq 1 200000"), "here"))
    jobs.wait(world, [record.alias])
    blocks = logs.show(world, record.alias, View(lines=3, collapse=False))
    texts = [
        text for block in blocks if block.source.stream == "out" for text in block.list_texts()
    ]
    assert texts == ["199998", "199999", "200000"]


def test_nothing_is_left_behind_where_the_cluster_cannot_be_reached(
    world: World, link: Link, job: Job
) -> None:
    ready = prepare(world, job("hostname"), "here")
    link.cut = True
    with pytest.raises(Unreachable):
        submit(world, ready)
    assert world.ledger.list_runs() == ()
    assert not (world.home.parent / "root").exists()


def test_a_program_that_is_not_there_is_refused_before_anything_is_sent(
    world: World, link: Link, job: Job
) -> None:
    ready = prepare(world, job("python nowhere.py"), "here")
    with pytest.raises(Invalid, match=r"nowhere\.py"):
        refuse_failing(ready)
    assert link.dialled == 0


def test_a_missing_secret_is_named_and_nothing_is_sent(world: World, link: Link, job: Job) -> None:
    ready = prepare(world, job("true", "secrets: [NOT_SET_ANYWHERE]"), "here")
    with pytest.raises(CheckFailed, match="NOT_SET_ANYWHERE"):
        refuse_failing(ready)
    with pytest.raises(CheckFailed, match="NOT_SET_ANYWHERE"):
        submit(world, ready)
    assert link.dialled == 0


def test_a_secret_reaches_the_program_and_nothing_else(world: World, link: Link, job: Job) -> None:
    canary = world.environ["TOKEN_OF_MINE"]
    program = 'printf %s "$TOKEN_OF_MINE" | sha256sum; ls -l $JOBGEN_RUN_DIR/secrets.env'
    ready = prepare(world, job(program, "secrets: [TOKEN_OF_MINE]"), "here")
    assert canary not in repr(rehearse_submit(ready))
    record = submit(world, ready)
    (ended,) = jobs.wait(world, [record.alias])
    assert ended.state is JobState.COMPLETED
    text = shown(world, record.alias)
    assert "-rw-------" in text
    directory = Path(ended.directory)
    assert not (directory / "secrets.env").exists()
    files = [p for p in (*directory.rglob("*"), *world.state.rglob("*")) if p.is_file()]
    assert len(files) > 10
    assert [p.name for p in files if canary.encode() in p.read_bytes()] == []
    assert not any(canary in script for script in link.sent)


def test_what_a_program_writes_here_has_the_modes_of_the_shell_that_submitted_it(
    world: World, job: Job
) -> None:
    before = os.umask(0o027)
    try:
        record = submit(world, prepare(world, job("touch made"), "here"))
    finally:
        os.umask(before)
    jobs.wait(world, [record.alias])
    run = Path(record.directory)
    assert (run / "src" / "made").stat().st_mode & 0o777 == 0o640
    assert run.stat().st_mode & 0o777 == 0o700


def test_a_job_waits_for_the_job_it_names(world: World, job: Job) -> None:
    first = submit(world, prepare(world, job("until [[ -e go ]]; do sleep 0.1; done"), "here"))
    ready = prepare(world, job("true", "after: [probe]"), "here")
    assert any(str(first.job) in option for option in ready.plan.submit_options)
    second = submit(world, ready)
    Path(first.directory, "src", "go").touch()
    ended = jobs.wait(world, [first.alias, second.alias])
    assert [r.state for r in ended] == [JobState.COMPLETED] * 2


def test_what_is_recorded_is_plain(world: World, job: Job) -> None:
    record = submit(world, prepare(world, job("true", "labels: {team: nlp}"), "here"))
    about = json.loads((Path(record.directory) / "run.json").read_text())
    assert about["token"] == record.token
    assert about["shape"]["labels"] == {"team": "nlp"}
    jobs.wait(world, [record.alias])


def test_waiting_ends_in_time_and_leaves_the_job_alone(world: World, job: Job) -> None:
    record = submit(world, prepare(world, job("sleep 3600"), "here"))
    with pytest.raises(JobgenError, match=record.alias):
        jobs.wait(world, [record.alias], timeout=0.5)
    assert not world.ledger.get(record.alias).ended
    from jobgen.app.cancelling import cancel

    cancel(world, [record.alias])
    (ended,) = jobs.wait(world, [record.alias])
    assert ended.state is JobState.CANCELLED
