"""``jobgen prune``."""

from __future__ import annotations

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import verb
from jobgen.cli.completers import complete_jobs, complete_states
from jobgen.cli.params import Duration, Size, States


@verb(
    "prune",
    "jobgen prune -c a100x16                    # list what ended runs hold",
    "jobgen prune --older-than 30d --state failed",
    "jobgen prune --what sources --larger-than 10GiB --dry-run",
)
@click.argument("refs", metavar="[ID]...", nargs=-1, shell_complete=complete_jobs)
@click.option("--older-than", metavar="TIME", type=Duration(), help="Runs that ended so long ago")
@click.option("--larger-than", metavar="SIZE", type=Size(), help="Runs that hold more than this")
@click.option(
    *("--state", "states"),
    metavar="STATE",
    type=States(),
    multiple=True,
    shell_complete=complete_states,
    help="Runs that ended in this state",
)
@click.option(
    "--what",
    type=click.Choice(["sources", "logs", "runs"]),
    default="runs",
    help="Remove only uploaded sources, or only logs (default: runs)",
)
@click.option("--outputs", is_flag=True, help="Remove what the program wrote, too")
@click.option("-n", "--dry-run", is_flag=True, help="Show what would be removed")
def command(call: Call, what: str, outputs: bool, dry_run: bool, **chosen: object) -> int:
    """Remove files of runs that have ended from the cluster.

    Without ID, --older-than, --larger-than and --state it lists what ended runs hold. Live runs
    are never touched: those that are pending, held, running or LOST, and those that a live run
    waits for. What the program wrote in its working directory stays, unless --outputs is given.
    The run database keeps the run.
    """
    from jobgen.app.pruning import Selection, list_parts
    from jobgen.cli import prune_dialog

    selection = Selection(**chosen)  # type: ignore[arg-type]  # as click has checked them
    parts = list_parts(what, outputs=outputs)  # type: ignore[arg-type]  # a choice of these
    return prune_dialog.run(call, selection, parts, dry_run=dry_run)
