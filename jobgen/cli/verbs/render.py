"""``jobgen render``."""

from __future__ import annotations

from pathlib import Path

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import verb
from jobgen.cli.words import FILE, JOB
from jobgen.errors import Exit


@verb(
    "render",
    "jobgen render job.yaml -c a100x16 > job.sbatch",
    "jobgen render job.yaml -c a100x16 -o rendered/",
    "jobgen render job.yaml -c a100x16 --check rendered/",
)
@JOB
@click.option("-o", "--output", metavar="DIR", type=FILE, help="Write all files into a folder.")
@click.option("--file", "name", default="job.sbatch", metavar="NAME", help="Print this file.")
@click.option(
    "--check", metavar="DIR", type=FILE, help="Compare with a folder; exit 1 if it differs."
)
def command(call: Call, job: Path, output: Path | None, name: str, check: Path | None) -> int:
    """Print or write the exact files of a job, byte for byte what is submitted."""
    from jobgen.app import rendering
    from jobgen.app.prepare import prepare
    from jobgen.cli.screens import render as screens

    ready = prepare(call.world, job, call.flags.cluster, call.flags.sets, with_upload=False)
    call.complain(p for p in ready.plan.notes if not call.flags.json)
    if check:
        found = rendering.compare(ready, check)
        call.answer(lambda: screens.compared(found), lambda ink: screens.differences(found, ink))
        return Exit.FAILED if found else Exit.DONE
    written = rendering.write(ready, output) if output else ()
    if call.flags.json:
        call.envelope(screens.data(ready, written), warnings=ready.plan.notes)
    elif output:
        call.output.data(screens.written(ready, output))
    else:
        call.output.bytes(rendering.file(ready, name))
    return Exit.DONE
