"""What becomes of jobs on a real cluster, as any later command sees it; and cancel at every moment.

The controller forgets ended jobs after ten seconds here, so that what remains of them is tried.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from jobgen.app.cancelling import cancel
from jobgen.app.context import RunContext
from jobgen.app.jobs import refresh_stale
from jobgen.app.prepare import PreparedJob, prepare
from jobgen.app.submission_driver import carry_out
from jobgen.app.submit import make_payload
from jobgen.app.world import World
from jobgen.errors import JobgenError, Refused, Unreachable
from jobgen.model.observation import format_mark
from jobgen.model.record import JobState, Login, RunRecord
from jobgen.submission.exchange import list_run_files, make_record
from jobgen.transport import Transport
from jobgen.transport.pipes import PipeChannel
from jobgen.transport.protocol import BOOTSTRAP, Session
from tests.cluster import Cluster, Options
from tests.cluster.processes import Process
from tests.e2e.runs import submit as submit_job
from tests.e2e.runs import write
from tests.waiting import HANG, until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

MIN_JOB_AGE = 10
LATER = ("--begin=now+1hour",)
RUN = 'echo "$SLURM_JOB_ID" >>"$JOBGEN_RUN_DIR/../executed.$JOBGEN_TOKEN"'


@pytest.fixture(scope="module")
def testbed() -> Iterator[Cluster]:
    conf = (f"MinJobAge={MIN_JOB_AGE}",)
    with Cluster.up(Options(nodes=2, accounting=True, message_timeout=5, conf=conf)) as cluster:
        yield cluster


@dataclass
class Desk:
    """A person's machine: a ledger of its own, and a shell on the login host as the way there."""

    cluster: Cluster
    folder: Path

    def __post_init__(self) -> None:
        (self.folder / "src").mkdir()
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder)}
        self.said: list[str] = []
        self.world = World(env, self.folder, self.folder, say=self.said.append, dial=self.dial)

    def dial(self, login: Login, say: Callable[[str], None]) -> Transport:
        path = f"PATH={self.cluster.scratch}/blind:{os.environ['PATH']}"
        words = [*self.cluster.enter("login"), "env", path, "/bin/sh", "-c", BOOTSTRAP]
        return Session(PipeChannel(words, own_session=True), "login")

    def submit(
        self,
        run: str = RUN,
        *more: str,
        options: tuple[str, ...] = (),
        accounting: Literal["auto", "none"] = "none",
        patience: float = HANG,
    ) -> RunRecord:
        """A job whose program is this, on one node."""
        lines = ["name: watched", "nodes: 1", "time: 2h", "launcher: plain", *more, "run: |"]
        path = self.folder / "src" / "job.yaml"
        path.write_text("\n".join([*lines, f"  {run}", ""]))
        profile = str(self.cluster.profile(procs_per_node=1, accounting=accounting))
        ready = prepare(self.world, path, profile)
        plain = ready._replace(site=ready.site._replace(login=Login("local")))
        return self._send(plain, options, patience)

    def _send(self, ready: PreparedJob, options: tuple[str, ...], patience: float) -> RunRecord:
        """As submit does, with further words for sbatch and a patience of its own."""
        world = self.world
        record = make_record(
            ready.plan, ready.bundle.digest, ready.site, token=world.token(), now=world.now()
        )
        record = world.ledger.begin(record, ready.bundle)
        files = list_run_files(record, ready.bundle)
        link = world.connect(record.site.login)
        context = RunContext(
            link, world.ledger, world.now, world.sleep, world.say, patience=patience
        )
        try:
            return carry_out(
                record,
                lambda: make_payload(world, ready, files),
                context,
                options=(*ready.plan.submit_options, *options),
            )
        finally:
            link.close()

    def look(self, record: RunRecord) -> RunRecord:
        """As any later command sees it."""
        return refresh_stale(self.world, [self.world.ledger.get(record.token)])[0]

    def becomes(self, record: RunRecord, state: JobState, *, ended: bool) -> RunRecord:
        """Look until it is so."""
        seen = [record]

        def so() -> bool:
            seen.append(self.look(record))
            return (seen[-1].state, seen[-1].ended) == (state, ended)

        with suppress(TimeoutError):
            until(so, str(state), pause=0.5)
        last = seen[-1]
        events = [event.text for event in self.world.ledger.list_events(record.token)]
        assert (last.state, last.ended) == (state, ended), (last, events, self.said)
        return last

    def forgotten(self, record: RunRecord) -> None:
        """Wait until the controller knows the job no more, without looking."""
        until(lambda: self.cluster.state(str(record.job)) == "UNKNOWN", "it to be forgotten")

    def never_starts(self, record: RunRecord) -> None:
        """The controller has no job of this run that could start, and none has started."""
        jobs = self.cluster.slurm("squeue", "-h", "-t", "all", "-o", "%i %T %k").splitlines()
        states = {line.split()[1] for line in jobs if format_mark(record.token) in line}
        assert states <= {"CANCELLED"}, jobs
        assert not self.executed(record)

    def executed(self, record: RunRecord) -> bool:
        return (self.cluster.scratch / f"executed.{record.token}").exists()


@pytest.fixture
def desk(testbed: Cluster, tmp_path: Path) -> Desk:
    return Desk(testbed, tmp_path)


# ends


def test_a_job_that_ended_is_told_with_its_code_while_the_queue_knows_it(desk: Desk) -> None:
    good, bad = desk.submit(), desk.submit("exit 3")
    assert desk.becomes(good, JobState.COMPLETED, ended=True).exit == "0:0"
    assert desk.becomes(bad, JobState.FAILED, ended=True).exit == "3:0"


def test_a_job_that_the_queue_does_not_list_is_not_lost_while_it_writes(desk: Desk) -> None:
    """As where a controller answers with an empty list, and there is no accounting."""
    record = desk.submit("until [[ -e end ]]; do echo on; sleep 0.1; done")
    desk.becomes(record, JobState.RUNNING, ended=False)
    until(lambda: any(p.stat().st_size for p in Path(record.directory, "logs").rglob("*.out")))
    squeue = desk.cluster.scratch / "blind" / "squeue"
    squeue.parent.mkdir()
    squeue.write_text("#!/bin/sh\n")
    squeue.chmod(0o755)
    seen = desk.becomes(record, JobState.UNKNOWN, ended=False)
    assert "its logs changed in the last two minutes" in seen.reason
    squeue.unlink()
    desk.becomes(record, JobState.RUNNING, ended=False)
    Path(record.directory, "src", "end").touch()
    desk.becomes(record, JobState.COMPLETED, ended=True)


def test_a_job_that_the_queue_forgot_is_told_by_its_own_last_word(desk: Desk) -> None:
    good, bad = desk.submit(), desk.submit("exit 3")
    desk.forgotten(good)
    desk.forgotten(bad)
    assert desk.look(good).state is JobState.COMPLETED
    seen = desk.look(bad)
    assert (seen.state, seen.exit, seen.ended) == (JobState.FAILED, "3:0", True)


def test_a_job_that_left_no_word_is_told_by_the_accounting_or_is_lost(desk: Desk) -> None:
    told = desk.submit("sleep 3600", accounting="auto")
    silent = desk.submit("sleep 3600")
    for run in (told, silent):
        desk.becomes(run, JobState.RUNNING, ended=False)
        _kill_without_a_word(desk.cluster, str(run.job))
    desk.cluster.slurm("scancel", str(told.job), str(silent.job))
    for run in (told, silent):
        desk.forgotten(run)
    until(lambda: desk.look(told).ended, "the accounting's word")
    assert desk.look(told).state in (JobState.CANCELLED, JobState.FAILED, JobState.NODE_FAIL)
    _age_logs(silent)
    lost = desk.becomes(silent, JobState.LOST, ended=True)
    assert "killed" in lost.reason


def _kill_without_a_word(cluster: Cluster, job: str) -> None:
    """slurmstepd goes, and before it what would write the exit marker.

    Nothing here tells a job's shell to end: it would say so in its marker.
    """
    mine = f"SLURM_JOB_ID={job}"

    def programs() -> list[Process]:
        return [p for p in cluster.processes_with_env(mine) if p.command.endswith("sleep 3600")]

    until(programs, "the program")
    for node in cluster.layout.nodes:
        cluster.kill_slurmstepd(node, job, signal.SIGSTOP)
    while left := cluster.processes_with_env(mine):
        # the batch shell first: it would write down how its srun ended
        for process in sorted(left, key=lambda p: "slurm_script" not in p.command):
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
    for node in cluster.layout.nodes:
        cluster.kill_slurmstepd(node, job)


def _age_logs(run: RunRecord) -> None:
    """As after two minutes in which nothing is written to them."""
    logs = [path for path in Path(run.directory, "logs").rglob("*") if path.is_file()]
    assert logs
    for path in logs:
        os.utime(path, (path.stat().st_mtime - 120,) * 2)


def test_a_job_cancelled_behind_our_back_is_told_so(desk: Desk) -> None:
    run = desk.submit("sleep 3600")
    desk.becomes(run, JobState.RUNNING, ended=False)
    desk.cluster.slurm("scancel", str(run.job))
    desk.becomes(run, JobState.CANCELLED, ended=True)


def test_a_job_that_is_put_back_has_not_ended(desk: Desk) -> None:
    run = desk.submit(
        'if [ "$JOBGEN_RESTART" = 0 ]; then sleep 3600; fi',
        "checkpoint: {requeue: true, grace: 1m}",
    )
    desk.becomes(run, JobState.RUNNING, ended=False)
    desk.cluster.slurm("scontrol", "requeue", str(run.job))
    desk.becomes(run, JobState.PENDING, ended=False)
    desk.cluster.start_now(str(run.job))
    assert desk.becomes(run, JobState.COMPLETED, ended=True).restarts == 1


def test_a_controller_that_does_not_answer_changes_nothing(desk: Desk) -> None:
    run = desk.submit("sleep 3600")
    before = desk.becomes(run, JobState.RUNNING, ended=False)
    with desk.cluster.frozen_controller():
        seen = desk.look(run)
        desk.look(run)
    assert (seen.state, seen.updated) == (before.state, before.updated)
    assert sum("does not answer" in line for line in desk.said) == 1, "once a minute is enough"
    cancel(desk.world, [run.token])


def test_secrets_are_gone_when_a_job_was_cancelled_before_it_could_remove_them(desk: Desk) -> None:
    run = desk.submit(options=("--begin=now+1hour",))
    path = Path(run.directory) / "secrets.env"
    path.write_text("export A='b'\n")
    os.chown(path, Path(run.directory).stat().st_uid, -1)
    cancel(desk.world, [run.token])
    assert not path.exists()


def test_a_job_that_starts_while_the_controller_stands_still_waits_for_it(desk: Desk) -> None:
    """srun would give up: its allocation is not confirmed."""
    starts, frozen = desk.cluster.scratch / "starts", desk.cluster.scratch / "frozen"
    waits = f"until [ -e {frozen} ]; do sleep 0.1; done"
    gate = f'echo $2 >>{starts}\n{waits}\nexec $real "$@"'
    with desk.cluster.replaced("scontrol", gate, *desk.cluster.layout.nodes):
        run = desk.submit()
        until(starts.exists, "the job's first words")
        log = Path(run.directory, "logs", f"job-{run.job}.out")
        with desk.cluster.frozen_controller():
            frozen.touch()
            until(lambda: "job\njob" in starts.read_text() or "Unable" in log.read_text())
        assert desk.cluster.wait_state(str(run.job)) == "COMPLETED", log.read_text()


# an id is confirmed, not believed


def test_an_id_that_the_controller_lost_in_a_crash_is_submitted_again(
    testbed: Cluster, tmp_path: Path
) -> None:
    # an own cluster: here ended jobs must not be forgotten within seconds
    with Cluster.up(Options(nodes=1, message_timeout=5)) as cluster:
        desk = Desk(cluster, tmp_path)
        run = desk.submit(options=LATER)
        cluster.crash_controller()
        cluster.restart_controller()
        until(lambda: cluster.state(str(desk.look(run).job)) != "UNKNOWN", "another job")
        cluster.release("watched")
        last = desk.becomes(run, JobState.COMPLETED, ended=True)
        told = (cluster.scratch / f"executed.{run.token}").read_text().split()
        assert told == [str(last.job)]


# cancel


def test_a_job_that_waits_is_cancelled_and_never_starts(desk: Desk) -> None:
    run = desk.submit(options=LATER)
    (seen,) = cancel(desk.world, [run.token])
    assert (seen.state, seen.ended) == (JobState.CANCELLED, True)
    desk.never_starts(run)


def test_a_job_that_runs_is_cancelled(desk: Desk) -> None:
    run = desk.submit("sleep 3600")
    desk.becomes(run, JobState.RUNNING, ended=False)
    (seen,) = cancel(desk.world, [run.token])
    assert (seen.state, seen.ended) == (JobState.CANCELLED, True)
    assert not desk.cluster.processes_with_env(run.token)


def test_one_that_had_ended_stays_as_it_ended(desk: Desk) -> None:
    run = desk.submit()
    desk.cluster.wait_state(str(run.job))
    (seen,) = cancel(desk.world, [run.token])
    assert seen.state is JobState.COMPLETED
    assert cancel(desk.world, [run.token]) == (seen,)


def test_a_cancel_while_the_controller_stands_still_holds_all_the_same(desk: Desk) -> None:
    """It cannot be reached, but the tombstone lies: the job starts, sees it and does nothing."""
    run = desk.submit(options=LATER)
    with desk.cluster.frozen_controller(), pytest.raises(Unreachable, match="will not start"):
        cancel(desk.world, [run.token])
    desk.cluster.slurm("scontrol", "update", f"JobId={run.job}", "StartTime=now")
    desk.becomes(run, JobState.CANCELLED, ended=True)
    assert not desk.executed(run)


def test_a_cancel_while_the_answer_is_unclear_ends_the_job(desk: Desk) -> None:
    desk.cluster.freeze()
    try:
        with suppress(JobgenError):
            # sbatch gives up after five seconds; so do we, with the request still on its way
            desk.submit(options=LATER, patience=0.0)
        (run,) = desk.world.ledger.list_runs()
        assert run.state is JobState.SUBMITTING
    finally:
        desk.cluster.thaw()
    (seen,) = cancel(desk.world, [run.token])
    assert (seen.state, seen.ended) == (JobState.CANCELLED, True)
    desk.never_starts(run)


def test_a_signal_reaches_the_batch_shell_and_ends_nothing(desk: Desk) -> None:
    run = desk.submit('touch "$JOBGEN_RUN_DIR/up"; sleep 3600', "checkpoint: {grace: 30m}")
    desk.becomes(run, JobState.RUNNING, ended=False)
    stop = Path(run.directory) / "state" / "0" / "stop"
    # the trap is set before the program starts: until then the signal would end the shell
    until((Path(run.directory) / "up").exists, "the program")
    cancel(desk.world, [run.token], signal="USR1")
    until(stop.exists, "the stop file")
    assert not desk.look(run).ended
    cancel(desk.world, [run.token])


# refusals and full disks


def test_a_refusal_leaves_nothing_there(desk: Desk) -> None:
    before = set(desk.cluster.scratch.iterdir())
    with pytest.raises(Refused, match="Invalid partition name specified"):
        desk.submit(options=("--partition=nope",))
    assert set(desk.cluster.scratch.iterdir()) == before
    assert desk.world.ledger.list_runs()[0].ended


def test_who_waits_asks_the_controller_less_and_less(testbed: Cluster, tmp_path: Path) -> None:
    job = {"name": "long", "run": "sleep 600", "nodes": 1, "procs_per_node": 1, "time": "1h"}
    run = submit_job(testbed, write(tmp_path, {**job, "launcher": "plain", "preflight": "off"}))
    until(lambda: testbed.state(run.job) == "RUNNING", "the job runs")
    before = count_queries(testbed)
    waited = run.jobgen("wait", "--timeout", "20s")
    asked = count_queries(testbed) - before
    testbed.slurm("scancel", run.job)
    assert waited.returncode == 124, waited.stderr
    # after 0, 1, 2.5, 4.8, 8.1, 13.2 and 20 s; a question each second would make 20
    assert asked <= 10


def count_queries(cluster: Cluster) -> int:
    """How often the controller was asked about jobs."""
    told = re.findall(r"REQUEST_JOB_(?:INFO|USER_INFO)\w* .*count:(\d+)", cluster.slurm("sdiag"))
    return sum(map(int, told))
