"""``jobgen plan``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import verb
from jobgen.cli.words import JOB
from jobgen.errors import Exit


@verb(
    "plan",
    "jobgen plan job.yaml -c a100x16",
    "jobgen plan job.yaml -c a100x16 --set LR=3e-5 --diff",
    "jobgen plan job.yaml -c a100x16 --json",
)
@JOB
@click.option("--diff", is_flag=True, help="What changed since the last run of that name.")
@click.option("--against", metavar="ID", help="The same since another run.")
@click.option("-U", "context", metavar="N", default=3, help="Lines round each difference.")
@click.option("--exit-code", is_flag=True, help="Exit 8 where --diff finds a difference.")
def command(call: Call, job: Path, **chosen: Any) -> int:
    """Show what a job would do: every decision with its why, the files, the upload, the checks."""
    from jobgen.app.planning import plan
    from jobgen.app.prepare import prepare
    from jobgen.cli.screens import plan as screens

    ready = prepare(call.world, job, call.flags.cluster, call.flags.sets)
    against = chosen["against"] or ("last" if chosen["diff"] or chosen["exit_code"] else None)
    planned = plan(call.world, ready, diff=against, context=chosen["context"])
    draw = screens.Words(job=str(job), flags=call.flags)
    call.answer(
        lambda: screens.data(planned),
        lambda ink: screens.screen(planned, draw, ink),
        warnings=ready.plan.notes,
    )
    return Exit.DIFFERENT if chosen["exit_code"] and planned.differences else Exit.DONE
