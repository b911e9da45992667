"""``jobgen cluster ls`` and ``jobgen cluster show``."""

from __future__ import annotations

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import Lazy, verb
from jobgen.cli.flags import complete_clusters

VERBS = {
    "ls": (f"{__name__}:ls", "The profiles, and where each comes from."),
    "show": (f"{__name__}:show", "One profile: its file and what it comes to."),
}
command = Lazy("cluster", verbs=VERBS, help="The cluster profiles: what jobgen knows of a machine.")


@verb("ls", "jobgen cluster ls")
def ls(call: Call) -> None:
    """List the cluster profiles, and where each comes from."""
    from jobgen.app import clusters
    from jobgen.cli.screens import cluster as screens

    found = clusters.ls(call.world)
    call.answer(lambda: screens.listed(found), lambda ink: screens.table_of(found, ink))


@verb("show", "jobgen cluster show a100x16", "jobgen cluster show ./clusters/mine.yaml --json")
@click.argument("name", shell_complete=complete_clusters)
def show(call: Call, name: str) -> None:
    """Show one profile: its nodes, its network, its file."""
    from jobgen.app import clusters
    from jobgen.cli.screens import cluster as screens

    file, profile = clusters.show(call.world, name)
    call.answer(lambda: screens.data(file, profile), lambda ink: screens.screen(file, profile, ink))
