"""``jobgen cluster ls``, ``show``, ``add``, ``check`` and ``trust``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import Lazy, verb
from jobgen.cli.completers import complete_clusters
from jobgen.cli.flags import TRUST
from jobgen.cli.params import FILE, Duration
from jobgen.errors import Exit

VERBS = {
    "ls": (f"{__name__}:ls", "List profiles: yours, the project's, the shipped ones"),
    "show": (f"{__name__}:show", "Show one profile: nodes, network, login"),
    "add": (f"{__name__}:add", "Write a profile from what the cluster reports"),
    "check": (f"{__name__}:check", "Compare a profile with its cluster"),
    "trust": (f"{__name__}:trust", "Allow connecting to the login of a project's profile"),
}
command = Lazy(
    "cluster",
    verbs=VERBS,
    help="Manage cluster profiles: the files that describe nodes, network and login",
)


@verb("ls", "jobgen cluster ls", "jobgen cluster ls h100", "jobgen cluster ls --all")
@click.argument("word", default="")
@click.option("-a", "--all", "every", is_flag=True, help="List the shipped profiles one by one")
def ls(call: Call, word: str, every: bool) -> None:
    """List cluster profiles, or those of a GPU, a provider or a network."""
    from jobgen.app import clusters
    from jobgen.cli.screens import cluster_table as screens

    whole = bool(word) or every or call.flags.json
    profiles = clusters.list_profiles(call.world, word, brief=not whole)
    own = clusters.name_folder(call.world)
    draw = screens.draw_all if whole else partial(screens.draw_summary, folder=own)
    call.answer(
        lambda: screens.dump_profiles(profiles),
        lambda ink: draw(profiles, ink, clipped=call.output.seen),
    )


@verb(
    "show",
    "jobgen cluster show a100x16",
    "jobgen cluster show a100x16 -q > mine.yaml",
    "jobgen cluster show ./clusters/mine.yaml --json",
)
@click.argument("name", shell_complete=complete_clusters)
def show(call: Call, name: str) -> None:
    """Show one profile: its nodes, its network, its login.

    -v adds its file and those that it extends; -q prints the file alone, to copy it.
    """
    from jobgen.app import clusters
    from jobgen.cli.screens import cluster as screens

    file, profile = clusters.find(call.world, name)
    if call.flags.quiet and not call.flags.json:
        call.output.write_text(file.text)
        return
    whole = call.flags.verbose > 0
    call.answer(
        lambda: screens.data(file, profile),
        lambda ink: screens.screen(file, profile, ink, whole=whole),
    )


_PROBE = click.option(
    "--probe/--no-probe", default=None, help="Read a node's hardware, with a two-minute job on it"
)
_WAIT = click.option(
    *("--wait", "patience"),
    type=Duration(),
    default=None,
    help="Time that this job may wait and run; 10m by default",
)


@verb(
    "add",
    "jobgen cluster add mine --from login.hpc.example.org",
    "jobgen cluster add mine --from hpc --partition gpu --account lab42 --probe",
    "jobgen cluster add mine   # on the login host itself",
)
@click.argument("name")
@click.option("--from", "host", metavar="HOST", help="Login host, or its alias in ~/.ssh/config")
@click.option("--user", metavar="NAME", help="Login name; default: from ~/.ssh/config")
@click.option(
    "--backend",
    type=click.Choice(["paramiko", "openssh"]),
    help="SSH client; openssh for two-factor logins",
)
@click.option("--partition", metavar="NAME", help="Partition; default: the one with most GPUs")
@click.option("--account", metavar="NAME", help="Account; default: yours")
@click.option("--qos", metavar="NAME", help="QOS, if jobs need one")
@click.option("--root", metavar="DIR", help="Parent of run directories; default: scratch or home")
@_PROBE
@_WAIT
@click.option(
    "--output", metavar="FILE", type=FILE, help="Write to this file; - prints the profile"
)
@click.option(
    "--prove/--no-prove",
    default=None,
    help="Test the written profile, with an all-reduce job on two nodes",
)
@click.option("--like", metavar="JOB", type=FILE, help="With --prove: use this job's setup")
def add(
    call: Call,
    name: str,
    probe: bool | None,
    prove: bool | None,
    like: Path | None,
    **chosen: Any,
) -> int:
    """Write a profile from what the cluster reports, with the source of every line.

    Opens one connection and only reads. With your consent a two-minute job inspects a node.
    An existing file is replaced only if you agree. At the end a job on two nodes can test the
    profile: partition, account, shared run directory and all-reduce.
    """
    from jobgen.app import adding
    from jobgen.cli import proving_dialog, survey_dialog

    words = survey_dialog.read_request(name, chosen)
    if not survey_dialog.confirm_write(call, words):
        return Exit.USAGE
    leave = survey_dialog.choose_leave(call, probe)
    made = adding.add(call.world, words, leave, say=survey_dialog.say(call))
    adding.save(call.world, made)
    return proving_dialog.finish_add(call, made, prove=prove, like=like)


@verb("check", "jobgen cluster check mine", "jobgen cluster check mine --probe --json")
@click.argument("name", shell_complete=complete_clusters)
@_PROBE
@_WAIT
@TRUST
def check(call: Call, name: str, probe: bool | None, patience: float | None) -> int:
    """Compare a profile with what its cluster reports now.

    Exits 1 if they differ. Only --probe inspects a node, with a two-minute job.
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
    """Allow connecting to the login in a profile that comes with a project.

    jobgen asks once, at the first connection. Host, user and root are trusted together; if one
    of them changes, jobgen asks again. Contacts nothing.
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
