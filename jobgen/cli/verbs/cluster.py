"""``jobgen cluster ls``, ``show``, ``add``, ``check`` and ``trust``."""

from __future__ import annotations

from typing import Any

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import Lazy, verb
from jobgen.cli.flags import TRUST, complete_clusters
from jobgen.cli.params import FILE, Duration
from jobgen.errors import Exit

VERBS = {
    "ls": (f"{__name__}:ls", "The profiles, and where each comes from."),
    "show": (f"{__name__}:show", "One profile: its file and what it comes to."),
    "add": (f"{__name__}:add", "Make a profile of what a site tells of itself."),
    "check": (f"{__name__}:check", "A profile against its machine."),
    "trust": (f"{__name__}:trust", "Trust the login of a project's profile."),
}
command = Lazy("cluster", verbs=VERBS, help="The cluster profiles: what jobgen knows of a machine.")


@verb("ls", "jobgen cluster ls")
def ls(call: Call) -> None:
    """List the cluster profiles, and where each comes from."""
    from jobgen.app import clusters
    from jobgen.cli.screens import cluster as screens

    found = clusters.list_profiles(call.world)
    call.answer(lambda: screens.dump_files(found), lambda ink: screens.draw_table(found, ink))


@verb("show", "jobgen cluster show a100x16", "jobgen cluster show ./clusters/mine.yaml --json")
@click.argument("name", shell_complete=complete_clusters)
def show(call: Call, name: str) -> None:
    """Show one profile: its nodes, its network, its file."""
    from jobgen.app import clusters
    from jobgen.cli.screens import cluster as screens

    file, profile = clusters.find(call.world, name)
    call.answer(lambda: screens.data(file, profile), lambda ink: screens.screen(file, profile, ink))


_PROBE = click.option(
    "--probe/--no-probe", default=None, help="Submit a job of two minutes that looks at a node."
)
_WAIT = click.option(
    *("--wait", "patience"),
    type=Duration(),
    default=None,
    help="How long that job may wait and run; 10m by default.",
)


@verb(
    "add",
    "jobgen cluster add mine --from login.hpc.example.org",
    "jobgen cluster add mine --from hpc --partition gpu --account lab42 --probe",
    "jobgen cluster add mine                      # on the login host itself",
)
@click.argument("name")
@click.option(
    "--from", "host", metavar="HOST", help="The login host, or its alias in ~/.ssh/config."
)
@click.option("--user", metavar="NAME", help="The login name; from ~/.ssh/config by default.")
@click.option(
    "--backend", type=click.Choice(["paramiko", "openssh"]), help="openssh for two-factor logins."
)
@click.option("--partition", metavar="NAME", help="The partition; else the one with most GPUs.")
@click.option("--account", metavar="NAME", help="The account; else your default one.")
@click.option("--qos", metavar="NAME", help="The QOS, where jobs need one.")
@click.option("--root", metavar="DIR", help="Where run directories go; else scratch or home.")
@_PROBE
@_WAIT
@click.option("--output", metavar="FILE", type=FILE, help="Another file; - prints the profile.")
def add(call: Call, name: str, probe: bool | None, **chosen: Any) -> int:
    """Make a profile of what a site tells of itself; every line says how it was found.

    One connection, and questions only. A node is looked at with your leave: by a job of two
    minutes. A file that is there is not replaced without leave.
    """
    from jobgen.app import adding
    from jobgen.cli import survey_dialog
    from jobgen.cli.screens import survey as screens

    words = survey_dialog.read_request(name, chosen)
    if not survey_dialog.confirm_write(call, words):
        return Exit.USAGE
    made = adding.add(
        call.world, words, survey_dialog.choose_leave(call, probe), say=survey_dialog.say(call)
    )
    adding.save(call.world, made)
    call.answer(lambda: screens.dump_added(made), lambda ink: screens.draw_added(made, ink))
    return Exit.DONE


@verb("check", "jobgen cluster check mine", "jobgen cluster check mine --probe --json")
@click.argument("name", shell_complete=complete_clusters)
@_PROBE
@_WAIT
@TRUST
def check(call: Call, name: str, probe: bool | None, patience: float | None) -> int:
    """Compare a profile with what its site tells of itself now.

    Exit 1 where the profile says something else. A node is looked at with --probe only.
    """
    from jobgen.app import checking, probing
    from jobgen.cli import survey_dialog
    from jobgen.cli.screens import survey as screens

    leave, wait = survey_dialog.choose_leave(call, bool(probe)), patience or probing.PATIENCE
    seen = checking.check(call.world, name, leave, patience=wait, say=survey_dialog.say(call))
    verbose = call.flags.verbose > 0
    call.answer(
        lambda: screens.dump_checked(seen),
        lambda ink: screens.draw_checked(seen, ink, verbose=verbose),
    )
    return Exit.FAILED if seen.comparison.wrong else Exit.DONE


@verb("trust", "jobgen cluster trust mine", "jobgen cluster trust ./clusters/mine.yaml")
@click.argument("name", shell_complete=complete_clusters)
def trust(call: Call, name: str) -> None:
    """Trust the login of a profile that comes with a project.

    Connections ask for it once. The host, the user and the root are trusted together: another
    one of them is asked for again. Nothing is contacted.
    """
    from jobgen.app import clusters
    from jobgen.app.permissions import trust_profile
    from jobgen.cli.screens import cluster as screens

    profile = clusters.find(call.world, name)
    login = trust_profile(call.world, profile.file, profile.site)
    file = profile.file
    call.answer(
        lambda: screens.dump_trusted(file, login),
        lambda ink: screens.draw_trusted(file, login, ink),
    )
