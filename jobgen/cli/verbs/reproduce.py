"""``jobgen reproduce``."""

from __future__ import annotations

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import verb
from jobgen.cli.flags import ON, OUTSIDE, TRUST
from jobgen.cli.params import ID


@verb(
    "reproduce",
    "jobgen reproduce llama-3",
    "jobgen reproduce llama-3 --dry-run      # show what would differ",
    "jobgen reproduce @last --on a100x16 -y",
)
@ID
@ON
@click.option("-n", "--dry-run", is_flag=True, help="Show what would be sent; send nothing")
@click.option("-f", "--follow", is_flag=True, help="Follow the logs; exit with the job's status")
@click.option("-w", "--wait", is_flag=True, help="Wait for the end; exit with the job's status")
@click.option("--force", is_flag=True, help="Submit even if a check of the plan fails")
@TRUST
@OUTSIDE
def command(call: Call, ref: str, on: str | None, **options: bool) -> int:
    """Submit a run again as it was: its code, job file, --set and cluster.

    The code comes from the run directory, else from git: its commit with the changes. What differs
    from the run is shown first, and confirmed: versions, profile, scripts, packages, image.
    """
    from jobgen.app.reproducing import prepare_reproduction
    from jobgen.cli import submit_dialog
    from jobgen.errors import Exit

    again = submit_dialog.repeat_command(call, "reproduce", ref, on)
    chosen = submit_dialog.SubmitOptions(**options, again=again)
    with prepare_reproduction(call.world, ref, on or call.flags.cluster) as found:
        call.output.say(f"code: {found.code.source}")
        for text in found.remarks:
            call.output.say(text)
        question = f"{len(found.differences)} differences from {found.record.alias}. Submit?"
        if found.differences and not chosen.dry_run and not call.confirm(question):
            call.output.say("Nothing was submitted.")
            return Exit.USAGE
        return submit_dialog.run(call, found.ready, found.job_file, chosen)
