"""A submit over links that break, to a scheduler that really runs: once, or not at all."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobgen.app import jobs, submit
from jobgen.app.cancelling import cancel
from jobgen.app.context import RunContext
from jobgen.app.prepare import PreparedJob, prepare
from jobgen.app.submission_driver import carry_out
from jobgen.app.world import World
from jobgen.errors import JobgenError, Unreachable
from jobgen.model.record import JobState, Login, RunRecord
from jobgen.shell import Result
from jobgen.submission.exchange import list_run_files, make_record
from jobgen.submission.states import Phase, State
from jobgen.transport import Payload
from jobgen.transport.this_machine import LocalTransport

Job = Callable[..., Path]
RUN = 'echo "$SLURM_JOB_ID" >>"$JOBGEN_RUN_DIR/../executed"'


class Flaky:
    """Links on which certain calls, counted over all of them, go wrong."""

    def __init__(self, **faults: str) -> None:
        self.faults = {int(name.removeprefix("call")): how for name, how in faults.items()}
        self.calls = 0
        self.dialled = 0

    def dial(self, login: Login, say: Callable[[str], None]) -> Any:
        self.dialled += 1
        return FlakyLink(self)


class FlakyLink(LocalTransport):
    """A real transport to this machine, but for its faults."""

    def __init__(self, flaky: Flaky) -> None:
        super().__init__()
        self.flaky = flaky

    def call(
        self, script: str, payload: Payload | None = None, *, deadline: float = 30, sink: Any = None
    ) -> Result:
        self.flaky.calls += 1
        how = self.flaky.faults.get(self.flaky.calls, "")
        if how == "before":
            self.close()
            raise Unreachable("the link broke")
        result = super().call(script, payload, deadline=deadline, sink=sink)
        if how == "after":
            self.close()
            raise Unreachable("the link broke")
        if how == "garbage":
            return Result(0, b"Welcome!\n\x1b]0;x\x07" + result.out[: len(result.out) // 2])
        return result


@pytest.fixture
def flaky(world: World) -> Callable[..., tuple[World, Flaky]]:
    """The world with such links, and a sleep that does not last."""

    def make(**faults: str) -> tuple[World, Flaky]:
        links = Flaky(**faults)
        return replace(world, dial=links.dial, sleep=lambda _: None), links

    return make


def planned(world: World, ready: PreparedJob) -> RunRecord:
    """The record of a run of which nothing is sent yet."""
    digest = ready.bundle.digest
    return make_record(ready.plan, digest, ready.site, token=world.token(), now=world.now())


def submitted(world: World, path: Path) -> RunRecord:
    return submit.submit(world, prepare(world, path, "here"))


def executed(world: World) -> list[str]:
    path = world.home.parent / "root" / "executed"
    return path.read_text().split() if path.exists() else []


@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.parametrize("call", [1, 2])
def test_a_link_that_breaks_within_a_submit_is_made_anew(
    flaky: Any, job: Job, call: int, how: str
) -> None:
    world, links = flaky(**{f"call{call}": how})
    run = submitted(world, job(RUN))
    assert links.dialled == 2
    (seen,) = jobs.wait(world, [run.alias])
    assert seen.state is JobState.COMPLETED
    assert executed(world) == [str(run.job)]


@pytest.mark.parametrize("how", ["before", "after"])
def test_an_upload_on_a_link_that_stays_broken_is_not_submitted_and_leaves_nothing(
    flaky: Any, job: Job, how: str
) -> None:
    world, links = flaky(**{f"call{n}": how for n in (1, 2, 3, 4)})
    with pytest.raises(Unreachable, match="was not submitted") as caught:
        submitted(world, job(RUN))
    assert "run the same command again" in caught.value.problems[-1].hint
    links.faults.clear()
    (run,) = jobs.refresh_stale(world, world.ledger.list_runs())
    assert (run.state, run.ended) == (JobState.REJECTED, True)
    assert not list((world.home.parent / "root").glob("probe-*"))
    assert executed(world) == []


@pytest.mark.parametrize("how", ["before", "after"])
def test_a_submit_whose_answer_never_came_is_settled_by_the_next_command(
    flaky: Any, job: Job, how: str
) -> None:
    world, links = flaky(**{f"call{n}": how for n in (2, 3, 4, 5)})
    with pytest.raises(Unreachable, match="is not known yet") as caught:
        submitted(world, job(RUN))
    assert "jobgen show probe-1" in caught.value.problems[-1].hint
    links.faults.clear()
    (seen,) = jobs.wait(world, ["probe-1"])
    assert seen.state is JobState.COMPLETED
    assert executed(world) == [str(seen.job)]


@pytest.mark.parametrize("call", [1, 2, 3])
def test_an_answer_that_is_garbage_is_no_answer(flaky: Any, job: Job, call: int) -> None:
    world, links = flaky(**{f"call{call}": "garbage"})
    with suppress(JobgenError):
        submitted(world, job(RUN))
    links.faults.clear()
    (seen,) = jobs.wait(world, ["probe-1"])
    assert len(executed(world)) == (seen.state is JobState.COMPLETED)


def test_a_file_that_changes_while_it_is_sent_ends_the_submit(
    world: World, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = job(RUN)
    ready = prepare(world, path, "here")
    (path.parent / "job.yaml").write_text("# longer than it was\n" + path.read_text())
    with pytest.raises(JobgenError, match="changed during"):
        submit.submit(world, ready)
    (run,) = jobs.refresh_stale(world, world.ledger.list_runs())
    assert (run.state, run.ended) == (JobState.REJECTED, True)
    assert not list((world.home.parent / "root").glob("probe-*"))


def test_a_submit_that_is_interrupted_while_it_sends_leaves_nothing(world: World, job: Job) -> None:
    ready = prepare(world, job(RUN), "here")
    record = world.ledger.begin(planned(world, ready))

    def endless() -> Payload:
        def chunks() -> Iterator[bytes]:
            yield b"x" * 512
            raise KeyboardInterrupt

        return Payload(1 << 20, chunks())

    link = world.connect(record.site.login)
    context = RunContext(link, world.ledger, world.now, world.sleep, world.say)
    with link, pytest.raises(KeyboardInterrupt):
        carry_out(record, endless, context)
    (run,) = jobs.refresh_stale(world, world.ledger.list_runs())
    assert (run.state, run.ended) == (JobState.REJECTED, True)
    assert not list((world.home.parent / "root").glob("probe-*"))


def test_a_run_that_another_live_process_sends_is_left_to_it(world: World, job: Job) -> None:
    ready = prepare(world, job(RUN), "here")
    record = world.ledger.begin(planned(world, ready))
    with world.ledger.write() as db:
        db.execute("UPDATE runs SET owner = 'elsewhere:1', leased = ?", (world.now() + 60,))
    (seen,) = jobs.refresh_stale(world, [record])
    assert (seen.state, seen.ended) == (JobState.PLANNED, False)
    assert "process 1 on elsewhere is submitting it" in seen.reason
    with world.ledger.write() as db:
        db.execute("UPDATE runs SET leased = ?", (world.now() - 1,))
    (seen,) = jobs.refresh_stale(world, [record])
    assert seen.ended, "what nobody sends any more is given up"
    assert "elsewhere" not in seen.reason


def test_a_cancel_while_another_process_sends_is_obeyed_by_it(world: World, job: Job) -> None:
    ready = prepare(world, job(RUN), "here")
    record = world.ledger.begin(planned(world, ready))
    link = world.connect(record.site.login)
    context = RunContext(link, world.ledger, world.now, world.sleep, world.say)

    def send() -> Payload:
        # the other process has the lease, so all that a cancel can do is to write the wish down
        cancel(world, [record.token], patience=0.0)
        from jobgen.upload import build_payload

        stream = build_payload(ready.manifest, list_run_files(record, ready.bundle))
        return Payload(stream.size, stream.chunks)

    with link:
        seen = carry_out(record, send, context)
    assert (seen.state, seen.ended) == (JobState.CANCELLED, True)
    assert executed(world) == []
    assert (Path(seen.directory) / "cancel").exists()


def test_all_jobs_of_a_cluster_are_looked_at_in_one_call(flaky: Any, job: Job) -> None:
    world, links = flaky()
    runs = [submitted(world, job("sleep 60")) for _ in range(3)]
    before = links.calls
    seen = jobs.refresh_stale(world, runs)
    assert links.calls - before == 1
    assert {r.state for r in seen} <= {JobState.PENDING, JobState.RUNNING}
    cancelled = cancel(world, [r.alias for r in runs])
    assert {r.state for r in cancelled} == {JobState.CANCELLED}


def test_what_was_heard_stands_in_the_ledger_and_in_its_events(world: World, job: Job) -> None:
    run = submitted(world, job("exit 3"))
    jobs.wait(world, [run.alias])
    kept = world.ledger.get(run.alias)
    assert (kept.state, kept.exit, kept.ended) == (JobState.FAILED, "3:0", True)
    assert State.from_data(kept.submission["state"]).phase in (Phase.SUBMITTED, Phase.CONFIRMED)
    kinds = [event.kind for event in world.ledger.list_events(run.token)]
    assert kinds[:4] == ["planned", "staged", "submitting", "submitted"]
    assert kinds[-1] == "failed"


class FullDisk(Flaky):
    """The disk of the run database is full from a certain call on, until there is room again."""

    def __init__(self, world: World, call: int) -> None:
        super().__init__()
        self.world, self.call = world, call

    def dial(self, login: Login, say: Callable[[str], None]) -> Any:
        return FillingLink(self)

    def fill(self, *, full: bool) -> None:
        db = self.world.ledger._connection()
        (pages,) = db.execute("PRAGMA page_count").fetchone()
        db.execute(f"PRAGMA max_page_count = {pages if full else 1 << 20}")
        free = "CREATE TABLE IF NOT EXISTS filler (x BLOB)"
        with suppress(sqlite3.OperationalError):
            for _ in range(100):
                db.execute(free if full else "DROP TABLE IF EXISTS filler")
                db.execute("INSERT INTO filler VALUES (zeroblob(4000))") if full else None


class FillingLink(FlakyLink):
    flaky: FullDisk

    def call(self, *words: Any, **more: Any) -> Result:
        result = super().call(*words, **more)
        if self.flaky.calls == self.flaky.call:
            self.flaky.fill(full=True)
        return result


def test_a_run_database_without_room_while_sbatch_answers_hides_no_job(
    world: World, job: Job
) -> None:
    said: list[str] = []
    world = replace(world, say=said.append)
    disk = FullDisk(world, call=2)
    full = replace(world, dial=disk.dial)
    full.__dict__["ledger"] = world.ledger
    big = " " * 8000
    run = submitted(full, job(f"{RUN}{big}"))
    assert run.job is not None
    assert any("sbatch was asked all the same" in line for line in said)
    assert not any("nothing was sent" in line for line in said)
    disk.fill(full=False)
    (seen,) = jobs.wait(world, [run.alias])
    assert (seen.job, seen.state) == (run.job, JobState.COMPLETED)
    assert executed(world) == [str(run.job)]


def test_a_run_database_without_room_sends_nothing(world: World, job: Job) -> None:
    world.ledger.reserve()
    FullDisk(world, call=0).fill(full=True)
    with pytest.raises(JobgenError, match="disk is full") as caught:
        submitted(world, job(RUN + " " * 8000))
    assert "nothing was sent" in caught.value.problems[0].hint
    assert not (world.home.parent / "root").exists()
