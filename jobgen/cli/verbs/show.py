"""``jobgen show``."""

from __future__ import annotations

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import verb
from jobgen.cli.params import ID


@verb("show", "jobgen show @last", "jobgen show llama-3 --json", "jobgen show 812345 --cached")
@ID
@click.option(
    "--gpus", is_flag=True, help="Show each GPU, as last sampled; the job file needs monitor: 30s"
)
@click.option("--cached", is_flag=True, help="Show cached state without contacting the cluster")
def command(call: Call, ref: str, gpus: bool, cached: bool) -> None:
    """Show one job: state, why it waits or failed, timeline and files.

    With -v also its provenance: commit, changes, versions, packages and modules.

    ID is a run (llama-3), a job's name (its newest run), a Slurm job ID, or @last;
    with [3,7-9] behind it, elements of an array.
    """
    from jobgen.app import jobs
    from jobgen.cli.screens.job_data import dump_run
    from jobgen.cli.screens.jobs import draw_run

    now, verbose = call.world.now(), call.flags.verbose > 0
    shown = jobs.show(call.world, ref, cached=cached, every=verbose)
    call.answer(
        lambda: dump_run(shown),
        lambda ink: draw_run(shown, now, ink, gpus=gpus, verbose=verbose),
    )
