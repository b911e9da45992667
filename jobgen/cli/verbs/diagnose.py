"""``jobgen diagnose``."""

from __future__ import annotations

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import verb
from jobgen.cli.completers import complete_jobs


@verb(
    "diagnose",
    "jobgen diagnose @last",
    "jobgen diagnose slurm-812345.out",
    "jobgen diagnose logs/ --json",
)
@click.argument(
    "what", metavar="ID|DIR|FILE...", nargs=-1, required=True, shell_complete=complete_jobs
)
def command(call: Call, what: tuple[str, ...]) -> None:
    """Find why a job failed: the first bad rank, the cause, and what to do.

    Give a run, or any log files or folder of one run, or - for standard input: no
    job file and no cluster are needed.
    Exits with 0 whether or not a failure was found; `failed` in --json tells.
    """
    from jobgen.app import diagnosing
    from jobgen.cli.screens import diagnosis

    found = diagnosing.diagnose(call.world, what, call.flags.cluster or "")
    verbose = call.flags.verbose > 0
    call.answer(
        lambda: diagnosis.dump_diagnosis(found),
        lambda ink: diagnosis.draw_diagnosis(found, ink, verbose=verbose),
    )
