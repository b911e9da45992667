"""``jobgen cancel``."""

from __future__ import annotations

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import verb
from jobgen.cli.params import IDS
from jobgen.errors import Exit


@verb(
    "cancel",
    "jobgen cancel @last",
    "jobgen cancel llama-3 812346",
    "jobgen cancel 'scan-1[3,7-9]'",
    "jobgen cancel @last --signal USR1",
)
@IDS
@click.option(
    "--signal", metavar="NAME", default="", help="Send this signal instead; the job may go on"
)
def command(call: Call, refs: tuple[str, ...], signal: str) -> int:
    """Cancel jobs.

    ID is a run (llama-3), some elements of an array (scan-1[3,7-9]), a Slurm job ID, or
    @last. Jobs that have ended stay as they are.
    Exits 1 if the scheduler does not list a job, so that it could not be cancelled.
    """
    from jobgen.app import cancelling
    from jobgen.cli.screens.job_data import dump_job
    from jobgen.cli.screens.jobs import draw_cancelled

    done = cancelling.cancel(call.world, refs, signal=signal)
    call.answer(
        lambda: [dump_job(r) for r in done],
        lambda ink: draw_cancelled(done, ink, signal=signal),
    )
    lost = any(record.ended and not record.settled for record in done)
    return Exit.FAILED if lost and not signal else Exit.DONE
