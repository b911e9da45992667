"""``plan --measure``: a user's own model is measured here, or by a short job on the cluster."""

from __future__ import annotations

import signal
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from jobgen.cli.call import Call
from jobgen.cli.output import defuse
from jobgen.errors import Exit, JobgenError, Refused, TimedOut, Usage
from jobgen.model.record import JobState
from jobgen.shell import split_lines

if TYPE_CHECKING:
    from jobgen.app.measuring_jobs import MeasuringJob
    from jobgen.app.world import World
    from jobgen.cli.estimating import PlanOptions
    from jobgen.cli.screens.plan_summary import Invocation
    from jobgen.model.record import RunRecord

PATIENCE = 1800.0
"""Seconds that the job may wait in the queue."""


def measure(call: Call, job: Path, options: PlanOptions) -> Exit | None:
    """Measure and keep the result for the plan; the exit code if no plan follows.

    Raises Usage where options contradict each other, else like ``measure_models``,
    ``prepare_measuring``, ``submit`` and ``keep_reports``; TimedOut where the job does not start.
    """
    from jobgen.cli.estimating import choose_cluster

    if options.on_cluster and not options.measure:
        raise Usage("--on-cluster measures a model by a job", hint="add --measure")
    if options.dry_run and not options.on_cluster:
        hint = "jobgen plan sends nothing; the files of a job: jobgen submit --dry-run"
        raise Usage("--dry-run is for --measure --on-cluster", hint=hint)
    if not options.measure:
        return None
    cluster = choose_cluster(call, job, options)
    if options.on_cluster:
        return _measure_by_job(call, job, cluster, dry_run=options.dry_run)
    from jobgen.app.measuring import measure_models

    measure_models(call.world, job, cluster, call.flags.sets)
    return None


def _measure_by_job(call: Call, job: Path, cluster: str | None, *, dry_run: bool) -> Exit | None:
    from jobgen.app.measuring_jobs import keep_reports, prepare_measuring
    from jobgen.app.plan_problems import refuse_failing
    from jobgen.app.shared_link import share_connection
    from jobgen.cli import submit_dialog
    from jobgen.cli.screens.plan_summary import Invocation

    prepare = partial(prepare_measuring, call.world, job, cluster, call.flags.sets)
    measuring = prepare()
    refuse_failing(measuring.ready)
    if dry_run:
        return _show_dry_run(call, measuring, Invocation(str(job), call.flags, call.flags.cluster))
    if not submit_dialog.confirm_submit(call, measuring.ready):
        return Exit.USAGE
    names = ", ".join(model.name for model in measuring.models)
    on = measuring.ready.plan.cluster
    call.output.say(defuse(f"measuring {names} by a job on {on}. Ctrl-C cancels the job."))
    with share_connection(call.world) as world:
        try:
            record = _run(call, world, measuring)
        except Refused as error:
            if not measuring.ready.profile.value.nodes.gpus_per_node:
                raise
            refusal = "; ".join(split_lines(str(error)))
            call.output.say(f"{defuse(refusal)}\nrequesting a GPU")
            measuring = prepare(gpus=1)
            refuse_failing(measuring.ready)
            record = _run(call, world, measuring)
        keep_reports(world, measuring, record)
    return None


def _show_dry_run(call: Call, measuring: MeasuringJob, invocation: Invocation) -> Exit:
    """The job as ``submit --dry-run`` shows it, with options of sbatch and program; with -v all
    scripts. At the end the command that submits it."""
    from jobgen.app.submit import rehearse_submit
    from jobgen.cli import submit_dialog

    ready = measuring.ready
    bundle = ready.bundle
    scripts = {
        name: bundle[name].content.decode().rstrip("\n").split("\n")
        for name in (bundle.entry, "node.sh", "program.sh")
    }
    if not call.flags.verbose:
        options = [line for line in scripts[bundle.entry] if line.startswith("#SBATCH")]
        scripts = {bundle.entry: options, "program.sh": scripts["program.sh"]}
    shown = [
        f"{name}\n" + "".join(f"  {defuse(line)}".rstrip() + "\n" for line in lines)
        for name, lines in scripts.items()
    ]
    shown.append(f"Next: {invocation.command('plan', '--measure', '--on-cluster')}\n")
    dry = rehearse_submit(ready)
    return submit_dialog.show_dry_run(call, ready, dry, "", last="\n".join(shown))


def _run(call: Call, world: World, measuring: MeasuringJob) -> RunRecord:
    """The run of the job, ended. Ctrl-C cancels it, at whatever moment."""
    from jobgen.app import submit
    from jobgen.cli.submit_dialog import build_progress

    token, interrupts = world.token(), []

    def interrupt(number: int, _: FrameType | None) -> None:
        interrupts.append(number)
        raise KeyboardInterrupt

    def sleep(seconds: float) -> None:
        if interrupts:  # Python ignores what is raised within a weak reference's callback
            raise KeyboardInterrupt
        world.sleep(seconds)

    sent = replace(world, token=lambda: token, sleep=sleep)
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        record = submit.submit(sent, measuring.ready, progress=build_progress(call))
        return _await_end(call, sent, record)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, before)
        sent.ledger.close()  # what it was doing there would lock out the other
        call.output.say("cancelling the job")
        _cancel(call, world, token)
        raise
    finally:
        signal.signal(signal.SIGINT, before)


def _await_end(call: Call, world: World, record: RunRecord) -> RunRecord:
    from jobgen.app import jobs
    from jobgen.cli.following import show_state

    wait = partial(jobs.wait, world, [record.alias], seen=partial(show_state, call))
    try:
        (ended,) = wait(timeout=PATIENCE)
    except TimedOut as error:
        record = world.ledger.get(record.token)
        if record.state is not JobState.PENDING:
            return wait()[0]
        _cancel(call, world, record.token)
        state = jobs.describe_state(record)
        message = f"{record.alias} is {state} after {PATIENCE / 60:.0f} minutes, and was cancelled"
        hint = "name a partition with idle nodes (sinfo lists them): --set slurm.partition=NAME"
        raise TimedOut(message, hint=f"{hint}; or measure on this machine: --measure") from error
    return ended


def _cancel(call: Call, world: World, token: str) -> None:
    """Cancel the run of this token, if it was begun; say so where that fails."""
    from jobgen.app.cancelling import cancel
    from jobgen.errors import Missing

    try:
        (record,) = cancel(world, [token])
        call.output.say(f"{record.alias} is {record.state}")
    except Missing:
        return
    except JobgenError as error:
        call.output.say(f"{defuse(error)}; cancel it later: jobgen cancel {token[:8]}")
