"""``jobgen submit``."""

from __future__ import annotations

from pathlib import Path

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import verb
from jobgen.cli.flags import INSIDE, OUTSIDE, RACE, TRUST, VARIANT
from jobgen.cli.params import JOB


@verb(
    "submit",
    "jobgen submit -c a100x16 --dry-run        # show everything, send nothing",
    "jobgen submit -c local --follow           # run on this machine, show the logs",
    "jobgen submit -c a100x16 --race partition=short,long",
    "jobgen submit --in 4711                   # inside an allocation of salloc",
    "ID=$(jobgen submit job.yaml -c a100x16 -q)",
)
@JOB
@click.option("-n", "--dry-run", is_flag=True, help="Show what would be sent; send nothing")
@click.option("-f", "--follow", is_flag=True, help="Follow the logs; exit with the job's status")
@click.option("-w", "--wait", is_flag=True, help="Wait for the end; exit with the job's status")
@click.option("--force", is_flag=True, help="Submit even if a check of the plan fails")
@VARIANT
@INSIDE
@RACE
@TRUST
@OUTSIDE
def command(call: Call, job: Path, dry_run: bool, follow: bool, wait: bool, force: bool) -> int:
    """Upload and submit a job, exactly once.

    JOB is ./job.yaml by default. With --follow, Ctrl-C detaches and the job keeps running.
    """
    from jobgen.app.inside_allocation import enter_allocation
    from jobgen.app.prepare import prepare
    from jobgen.cli import submit_dialog

    ready = prepare(call.world, job, call.flags.cluster, call.flags.sets)
    if call.flags.inside is not None:
        ready = enter_allocation(ready, call.flags.inside)
    options = submit_dialog.SubmitOptions(dry_run, follow, wait, force)
    return submit_dialog.run(call, ready, job, options)
