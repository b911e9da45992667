"""``jobgen recover``."""

from __future__ import annotations

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import verb
from jobgen.cli.flags import TRUST


@verb(
    "recover",
    "jobgen recover -c a100x16",
    "jobgen recover -c a100x16 /scratch/ann/jobgen/llama-3kq7x2ab",
)
@click.argument("directories", metavar="[DIR]...", nargs=-1)
@TRUST
def command(call: Call, directories: tuple[str, ...]) -> None:
    """Import runs that are missing from the run database.

    Use it if the run database was lost, or for runs that another machine submitted. They are read
    from their run directories, all of them unless DIR is given. Nothing changes on the cluster.
    """
    from jobgen.app import recovering
    from jobgen.cli.screens import recover as screens

    found = recovering.recover(call.world, call.flags.cluster, directories)
    now = call.world.now()
    call.answer(lambda: screens.data(found), lambda ink: screens.screen(found, now, ink))
