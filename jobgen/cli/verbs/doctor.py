"""``jobgen doctor``."""

from __future__ import annotations

from pathlib import Path

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import verb
from jobgen.cli.flags import OUTSIDE, TRUST
from jobgen.cli.params import FILE
from jobgen.errors import Exit


@verb(
    "doctor",
    "jobgen doctor",
    "jobgen doctor -c a100x16",
    "jobgen doctor -c a100x16 --job job.yaml    # its setup, python, torch and imports",
)
@click.option("--job", metavar="FILE", type=FILE, help="Check this job's environment on a node")
@click.option("--on-login", is_flag=True, help="With --job: on the login host, without a job")
@TRUST
@OUTSIDE
def command(call: Call, job: Path | None, on_login: bool) -> int:
    """Check this machine, and with -c a cluster, for problems; each comes with its fix.

    Without --job nothing is submitted. With --job a short job on one node runs the setup of that
    file, but not its program, and reports python, torch, CUDA, NCCL, the launcher and imported
    modules that are missing. Exits 1 if a check failed.
    """
    from jobgen.cli import environment_dialog
    from jobgen.cli.screens import doctor as screens

    examination = environment_dialog.examine(call, job, on_login=on_login)
    if isinstance(examination, Exit):
        return examination
    verbose = call.flags.verbose > 0
    call.answer(
        lambda: screens.data(examination),
        lambda ink: screens.screen(examination, ink, verbose=verbose),
    )
    return screens.choose_exit(examination)
