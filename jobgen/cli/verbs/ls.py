"""``jobgen ls``."""

from __future__ import annotations

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import verb
from jobgen.cli.params import complete_states


@verb("ls", "jobgen ls", "jobgen ls -a --state failed", "jobgen ls --cached --json")
@click.option("-a", "--all", "every", is_flag=True, help="List all jobs, not only the newest 25")
@click.option(
    *("--state", "states"),
    metavar="STATE",
    multiple=True,
    shell_complete=complete_states,
    help="List only jobs in this state, such as failed",
)
@click.option("-n", "limit", metavar="N", type=click.IntRange(min=1), help="List at most N jobs")
@click.option("--cached", is_flag=True, help="Show cached state without contacting a cluster")
def command(
    call: Call, every: bool, states: tuple[str, ...], limit: int | None, cached: bool
) -> None:
    """List jobs: pending, running, ended."""
    from jobgen.app import jobs
    from jobgen.cli.screens import jobs as screens

    cluster = call.flags.cluster
    records = jobs.list_runs(
        call.world, cluster=cluster, every=every, states=states, limit=limit, cached=cached
    )
    now = call.world.now()
    call.answer(
        lambda: [screens.dump_job(r) for r in records],
        lambda ink: screens.draw_jobs(records, now, ink, clipped=call.output.seen),
    )
