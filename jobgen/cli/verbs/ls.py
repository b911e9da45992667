"""``jobgen ls``."""

from __future__ import annotations

from typing import Any

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import verb
from jobgen.cli.completers import complete_states
from jobgen.cli.params import States


@verb("ls", "jobgen ls", "jobgen ls --state failed", "jobgen ls --set LR=1e-3")
@click.option("-a", "--all", "every", is_flag=True, help="List all jobs, not only the newest")
@click.option(
    *("--state", "states"),
    metavar="STATE",
    type=States(),
    multiple=True,
    shell_complete=complete_states,
    help="List only jobs in this state, such as failed",
)
@click.option("-n", "limit", metavar="N", type=click.IntRange(min=1), help="List the newest N jobs")
@click.option("--cached", is_flag=True, help="Show cached state without contacting a cluster")
def command(call: Call, states: tuple[str, ...], **chosen: Any) -> None:
    """List jobs: pending, running, ended; with -v, elements of arrays too.

    --set K=V lists only jobs that were submitted with this --set, and elements of sweeps with
    this value; --set K those with any value.
    """
    from jobgen.app import listing
    from jobgen.app.run_filter import RunFilter
    from jobgen.cli.screens import job_table

    wanted = RunFilter(call.flags.cluster, states, call.flags.sets)
    listed = listing.list_runs(call.world, wanted=wanted, **chosen)
    if call.flags.verbose:
        listed = listing.add_elements(call.world, listed)
    now, seen = call.world.now(), call.output.seen
    call.answer(
        lambda: job_table.dump_listed(listed),
        lambda ink: job_table.draw_listed(listed, now, ink, clipped=seen),
    )
