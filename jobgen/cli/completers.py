"""What completes words on the command line; only files and the run database of this machine are
read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import click

_WORD = r"[A-Za-z0-9@][A-Za-z0-9@._:+-]*"


def complete(names: Iterable[str], incomplete: str) -> list[str]:
    """The names that begin so, without those that a shell would read as more than a word."""
    return [name for name in names if name.startswith(incomplete) and re.fullmatch(_WORD, name)]


def complete_clusters(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Names of cluster profiles; only files of this machine are read."""
    from jobgen.app.world import World

    return complete((file.name for file in World.here().open_catalog().list_clusters()), incomplete)


def complete_jobs(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Names of jobs; only the run database of this machine is read."""
    from jobgen.app.world import World

    runs = World.here().ledger.list_runs(limit=50)
    return complete(("@last", *(record.alias for record in runs)), incomplete)


def complete_states(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """States of jobs, in lower case as they are usually typed."""
    from jobgen.model.record import JobState

    names = (state.value for state in JobState)
    return [n if incomplete.isupper() else n.lower() for n in names if _begins(n, incomplete)]


def complete_codes(_: click.Context, __: click.Parameter, incomplete: str) -> list[Any]:
    """Codes with their titles, then keys and names of environment variables."""
    from click.shell_completion import CompletionItem

    from jobgen.data.env_variables import catalogue, own_variables
    from jobgen.data.message_codes import codes
    from jobgen.load.key_reference import list_keys

    found = [code for code in codes().values() if _begins(code.code, incomplete)]
    items = [CompletionItem(code.code, help=code.title) for code in found]
    if not incomplete:
        return items
    names = sorted({*(key.path for key in list_keys()), *catalogue(), *own_variables()})
    return [*items, *complete(names, incomplete)]


def complete_nodes(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Names of the nodes of the job that is named; only the run database is read."""
    from jobgen.app.world import World
    from jobgen.errors import Missing
    from jobgen.payload.localslurm.hostlist import expand

    try:
        record = World.here().ledger.get(ctx.params.get("ref") or "@last")
    except Missing:
        return []
    return complete(expand(record.nodes), incomplete)


def complete_commands(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[Any]:
    """Commands for ``jobgen help``, below those that were typed already."""
    group: Any = ctx.find_root().command
    for name in ctx.params.get("names") or ():
        group = group.get_command(ctx, name) if isinstance(group, click.Group) else None
    return group.shell_complete(ctx, incomplete) if isinstance(group, click.Group) else []


def _begins(name: str, incomplete: str) -> bool:
    return name.lower().startswith(incomplete.lower())
