"""What ``submit`` asks, shows while it works, and says at the end."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from jobgen.cli.call import Call
from jobgen.cli.layout import format_span, write_hours
from jobgen.cli.output import is_tty
from jobgen.cli.progress_bar import ProgressBar
from jobgen.cli.screens import submit as screens
from jobgen.cli.screens.plan_summary import draw_top
from jobgen.errors import Exit
from jobgen.model.chain import read_chain
from jobgen.model.race import is_undecided
from jobgen.named_tuple import NamedTuple
from jobgen.shell import join

if TYPE_CHECKING:
    from jobgen.app.context import Progress
    from jobgen.app.prepare import PreparedJob
    from jobgen.cli.screens.plan_summary import Preview
    from jobgen.model.record import RunRecord
    from jobgen.submission.dry_run import DryRun
    from jobgen.transport import Transport


def preview_job(call: Call, ready: PreparedJob, job: str) -> Preview:
    """What the short screen is drawn from; ``job`` is empty if it has no file. Failed checks were
    overruled before."""
    from jobgen.app.plan_extras import plan
    from jobgen.cli.estimating import estimate_job
    from jobgen.cli.screens.plan_summary import Invocation, Preview

    answer = estimate_job(ready)._replace(forced=True)
    return Preview(plan(call.world, ready), answer, Invocation(job, call.flags, call.flags.cluster))


def show_dry_run(call: Call, ready: PreparedJob, dry: DryRun, job: str, *, last: str = "") -> Exit:
    """Print the dry run; ``last`` stands for its last lines if ``submit`` is not what is next."""
    from jobgen.app.permissions import note_login
    from jobgen.app.plan_problems import list_warnings

    untrusted = note_login(call.world, ready.cluster_file, ready.site)
    call.answer(
        lambda: screens.dump_dry_run(ready, dry),
        lambda ink: screens.draw_dry_run(
            preview_job(call, ready, job), dry, ink, scripts=call.flags.verbose > 0, last=last
        ),
        warnings=(*list_warnings(ready.plan), *untrusted),
    )
    if not call.flags.json:
        call.complain(untrusted)
    return Exit.DONE


def confirm_submit(call: Call, ready: PreparedJob, job: str = "") -> bool:
    """Whether to go on. A costly job is asked about, below its short plan; of others only warnings
    and notes are shown."""
    most = ready.profile.value.confirm.gpu_hours
    hours, starts = ready.plan.gpu_hours, ready.plan.starts
    costly = most is not None and hours > most
    if costly and job and call.can_ask and not call.flags.yes:
        call.output.say(draw_top(preview_job(call, ready, job), call.output.talk))
    elif not call.flags.json:
        call.complain(ready.plan.notes)
        call.complain(screens.list_failing(ready.plan.checks))
    if most is None or not costly:
        return True
    during = f" in up to {starts} starts" if starts > 1 else ""
    total = f"{write_hours(hours)} GPU-hours{during}"
    question = f"This may use {total} (asked above {write_hours(most)}). Submit?"
    if call.confirm(question):
        return True
    call.output.say("Nothing was submitted.")
    return False


class SubmitOptions(NamedTuple):
    """The options of ``submit`` and ``rerun``."""

    dry_run: bool
    follow: bool
    wait: bool
    force: bool
    again: str = ""
    """The command without --dry-run, where it is not ``submit``."""


def repeat_command(call: Call, verb: str, ref: str, on: str | None, *more: str) -> str:
    """The command line of this call of a verb that takes a run."""
    where = ("--on", on) if on else ()
    cluster = ("-c", call.flags.cluster) if call.flags.cluster else ()
    sets = [word for value in call.flags.sets for word in ("--set", value)]
    return join(["jobgen", verb, ref, *where, *cluster, *sets, *more])


def run(call: Call, ready: PreparedJob, job: Path, options: SubmitOptions) -> int:
    """Submit a job as its options say; gives the exit code."""
    from jobgen.app import submit as app
    from jobgen.app.plan_problems import refuse_failing
    from jobgen.cli import following

    refuse_failing(ready, force=options.force)
    if options.dry_run:
        last = f"Next: {options.again}\n" if options.again else ""
        return show_dry_run(call, ready, app.rehearse_submit(ready), str(job), last=last)
    if not confirm_submit(call, ready, str(job)):
        return Exit.USAGE
    record = submit(call, ready, job)
    show_accepted(call, record, stream=options.follow or options.wait)
    return following.follow_submitted(call, record, follow=options.follow, wait=options.wait)


def submit(call: Call, ready: PreparedJob, job: Path) -> RunRecord:
    """Submit the job, and say before if it may wait long."""
    from jobgen.app import submit as app

    progress, connected = build_progress(call), partial(show_outlook, call, ready)
    about = {"file": str(job.resolve())} if job.is_file() else {}
    return app.submit(call.world, ready, progress=progress, connected=connected, about=about)


LONG = 600.0
"""Seconds from which on an expected wait is shown."""


def show_outlook(call: Call, ready: PreparedJob, transport: Transport) -> None:
    """Say to a person when Slurm expects the job to start if that is long from now, and what the
    account has left then or if the job may use more."""
    from jobgen.app.start_estimate import ask_outlook

    if call.flags.json or call.flags.quiet or not is_tty(sys.stderr):
        return
    start, allowances, missing = ask_outlook(transport, ready)
    if missing is not None:
        call.output.say(screens.draw_missing_model(missing))
    late = start is not None and start.seconds >= LONG
    if start is not None and late:
        call.output.say(_EXPECTED.format(start.clock, format_span(start.seconds)))
    hours, shape = ready.plan.gpu_hours, ready.plan.shape.allocated
    gpus = shape.nodes * shape.gpus_per_node
    shown = [each for each in allowances if late or each.is_short_of(hours, gpus)]
    if shown:
        call.output.say(screens.draw_allowances(shown, hours, gpus))


_EXPECTED = """\
start: Slurm expects {}, in about {}. It may start earlier if jobs
       end before their time limits, and later if others have a higher priority."""


def show_accepted(call: Call, record: RunRecord, *, stream: bool) -> None:
    """Say the job's name and the next commands; with ``-q`` its id and nothing else."""
    if call.flags.json and stream:
        call.write_line({"event": "submitted", **screens.data(record)})
    elif call.flags.quiet and not call.flags.json:
        # one id stands for neither a race of which no job runs nor a chain
        several = is_undecided(record) or read_chain(record.shape)
        name = record.alias if several else record.job or record.alias
        call.output.write_text(f"{name}\n")
    else:
        call.answer(lambda: screens.data(record), lambda ink: screens.screen(record, ink))


def build_progress(call: Call) -> Progress:
    """The lines [1/3] … on standard error."""
    return ProgressBar(call.output, time.monotonic)
