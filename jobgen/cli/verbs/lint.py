"""``jobgen lint``."""

from __future__ import annotations

from pathlib import Path

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import verb
from jobgen.cli.flags import VARIANT
from jobgen.cli.job_files import choose_files
from jobgen.cli.params import FILE


@verb(
    "lint",
    "jobgen lint",
    "jobgen lint job.yaml -c a100x16",
    "jobgen lint old.sbatch",
    "jobgen lint clusters/*.yaml --format github",
)
@click.argument("files", metavar="[FILE]...", nargs=-1, type=FILE, callback=choose_files)
@VARIANT
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "github"]),
    default="text",
    help="Output format; github: annotations in CI",
)
def command(call: Call, files: tuple[Path, ...], form: str) -> int:
    """Check job files, cluster profiles and sbatch scripts, offline.

    Every problem is listed at once. FILE is ./job.yaml by default. With -c NAME, or if the job
    names its cluster, run every check that submit runs before it connects. Without -c, a
    cluster profile among the files is used instead.
    """
    from jobgen.app.linting import lint
    from jobgen.cli.screens import lint as screens

    call.flags.json = call.flags.json or form == "json"
    linted = lint(call.world, files, call.flags.cluster, call.flags.sets)
    draw = screens.choose_drawing(form, verbose=bool(call.flags.verbose))
    call.answer(lambda: screens.data(linted), lambda ink: draw(linted, call.texts, ink))
    return screens.choose_exit(linted)
