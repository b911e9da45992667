"""``doctor``; with ``--job`` the setup is shown, run on a node if the user agrees, and judged."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from jobgen.cli.call import Call
from jobgen.cli.layout import format_size
from jobgen.cli.output import defuse
from jobgen.errors import Exit, Usage
from jobgen.wording import count

if TYPE_CHECKING:
    from jobgen.app.doctor import Examination
    from jobgen.app.doctor.job_environment import EnvironmentCheck
    from jobgen.app.world import World
    from jobgen.model.record import RunRecord

_SHOWN = 15
"""Lines of setup that are shown; all of them with -v."""


def examine(call: Call, job: Path | None, *, on_login: bool) -> Examination | Exit:
    """The findings on this machine and a cluster, or on a job's environment there."""
    from jobgen.app import doctor

    if job is not None:
        return _examine_job(call, job, on_login=on_login)
    if on_login:
        raise Usage("--on-login runs the setup of a job", hint="add --job job.yaml")
    return doctor.examine(call.world, call.flags.cluster)


def _examine_job(call: Call, job: Path, *, on_login: bool) -> Examination | Exit:
    """The findings on a job's environment; or the exit code if there are none."""
    from jobgen.app.doctor import Examination, job_environment
    from jobgen.app.permissions import require_login
    from jobgen.app.plan_problems import refuse_failing
    from jobgen.app.shared_link import share_connection

    check = job_environment.prepare_check(call.world, job, call.flags.cluster, call.flags.sets)
    refuse_failing(check.ready)
    require_login(call.world, check.ready.cluster_file, check.ready.site)
    if not _confirm(call, check, on_login=on_login):
        call.output.say("Nothing was run.")
        return Exit.USAGE
    begun = time.monotonic()
    with share_connection(call.world) as world:
        if on_login:
            findings = tuple(job_environment.list_login_findings(world, check))
        else:
            record = _run(call, world, check)
            if isinstance(record, Exit):
                return record
            findings = tuple(job_environment.list_findings(world, check, record))
    cluster = check.ready.plan.cluster
    return Examination(cluster, findings, time.monotonic() - begun, (), str(job))


def _confirm(call: Call, check: EnvironmentCheck, *, on_login: bool) -> bool:
    """Show the setup and ask whether to run it."""
    cluster, lines = defuse(check.ready.plan.cluster), check.lines
    shown = lines if call.flags.verbose else lines[:_SHOWN]
    place = check.ready.site.login.host or "this machine"
    what = "only these setup lines:" if lines else "only python (the job has no setup)."
    where = f"This runs on {defuse(place)}"
    job = f"This submits a short one-node job on {cluster} that runs"
    call.output.say(f"{where if on_login else job} {what}")
    for line in shown:
        call.output.say(f"  {defuse(line)}")
    if len(shown) < len(lines):
        call.output.say(f"  {count(len(lines) - len(shown), 'more line')}: -v shows all")
    if check.ready.manifest is not None and not on_login:
        files = count(len(check.ready.manifest.files), "file")
        call.output.say(f"Upload: {files}, {format_size(check.ready.manifest.total)}")
    return call.confirm("Run them?" if lines else "Run it?")


def _run(call: Call, world: World, check: EnvironmentCheck) -> RunRecord | Exit:
    """The ended run of the check; Ctrl-C leaves the job, which ends by itself."""
    from jobgen.app import jobs, submit
    from jobgen.cli.following import Detachable, show_state
    from jobgen.cli.submit_dialog import build_progress

    record = submit.submit(world, check.ready, progress=build_progress(call))
    with Detachable(call, record.alias, code=Exit.INTERRUPTED) as detachable:
        (ended,) = jobs.wait(world, [record.alias], seen=partial(show_state, call))
        return ended
    return Exit(detachable.code)
