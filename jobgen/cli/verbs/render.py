"""``jobgen render``."""

from __future__ import annotations

from pathlib import Path

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import verb
from jobgen.cli.flags import RACE, VARIANT
from jobgen.cli.params import FILE, JOB


@verb(
    "render",
    "jobgen render -c a100x16 > job.sbatch",
    "jobgen render job.yaml -c a100x16 -o rendered/",
    "jobgen render -c a100x16 --check rendered/",
    "jobgen render -c a100x16 --standalone -o scripts/",
)
@JOB
@VARIANT
@RACE
@click.option("-o", "--output", metavar="DIR", type=FILE, help="Write all files to this folder")
@click.option(
    "--file",
    "name",
    default="job.sbatch",
    metavar="NAME",
    help="Print this file; default job.sbatch",
)
@click.option(
    "--check", metavar="DIR", type=FILE, help="Compare with this folder; exit 1 if a file differs"
)
@click.option(
    "--standalone",
    is_flag=True,
    help="Leave out what only jobgen needs: token, claim and cancel checks, exit marker. For "
    "scripts that you keep and submit with sbatch",
)
def command(
    call: Call, job: Path, output: Path | None, name: str, check: Path | None, standalone: bool
) -> int:
    """Print or write the scripts of a job, byte for byte as they are submitted.

    JOB is ./job.yaml by default.
    """
    from jobgen.app.prepare import make_standalone, prepare
    from jobgen.cli import render_output

    ready = prepare(call.world, job, call.flags.cluster, call.flags.sets, with_upload=False)
    if standalone:
        ready = make_standalone(call.world, ready)
    if not call.flags.json:
        call.complain((*ready.plan.notes, *render_output.list_failed_lines(ready)))
    if check:
        return render_output.check(call, ready, check)
    if output or call.flags.json:
        return render_output.write(call, ready, output)
    return render_output.show(call, ready, name)
