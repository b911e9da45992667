"""``jobgen rerun``."""

from __future__ import annotations

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import verb
from jobgen.cli.flags import ON, OUTSIDE, TRUST
from jobgen.cli.params import ID


@verb(
    "rerun",
    "jobgen rerun llama-3",
    "jobgen rerun @last --set time=8h --follow",
    "jobgen rerun scan-1 --failed      # the elements of a sweep that did not succeed",
    "jobgen rerun 'scan-1[3,7-9]'      # some elements of a sweep",
)
@ID
@ON
@click.option("--failed", is_flag=True, help="Of an array, submit only what did not succeed")
@click.option("-n", "--dry-run", is_flag=True, help="Show what would be sent; send nothing")
@click.option("-f", "--follow", is_flag=True, help="Follow the logs; exit with the job's status")
@click.option("-w", "--wait", is_flag=True, help="Wait for the end; exit with the job's status")
@click.option("--force", is_flag=True, help="Submit even if a check of the plan fails")
@TRUST
@OUTSIDE
def command(call: Call, ref: str, on: str | None, failed: bool, **options: bool) -> int:
    """Submit a run's job again: its job file as it is now, on its cluster, with its --set.

    What differs from the run is shown first: the scripts, and the commit of the folder.
    """
    from jobgen.app import rerunning
    from jobgen.app.prepare import prepare
    from jobgen.cli import submit_dialog

    request = rerunning.find_job(call.world, ref, failed=failed)
    cluster = on or call.flags.cluster or request.record.profile
    ready = prepare(call.world, request.file, cluster, (*request.sets, *call.flags.sets))
    for text in rerunning.describe_differences(call.world, request, ready):
        call.output.say(f"note: {text}")
    more = ("--failed",) if failed else ()
    again = submit_dialog.repeat_command(call, "rerun", ref, on, *more)
    chosen = submit_dialog.SubmitOptions(**options, again=again)
    return submit_dialog.run(call, ready, request.file, chosen)
