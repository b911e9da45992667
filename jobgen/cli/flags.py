"""The flags that every verb takes, before the verb or after it."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from jobgen.cli.call import Call
from jobgen.cli.completers import complete_clusters


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Remember the flag; what stands nearer to the end of the line wins."""
    # no flag has a default or a variable of click's, so a value was given on the command line:
    # releases of click differ in when they know its source
    call = ctx.find_object(Call)
    if call is None or value is None or value is False:
        return
    old = getattr(call.flags, str(param.name))
    setattr(call.flags, str(param.name), old + value if isinstance(value, tuple) else value)


def _count(ctx: click.Context, param: click.Parameter, value: int) -> None:
    call = ctx.find_object(Call)
    if call is not None and value:
        setattr(call.flags, str(param.name), getattr(call.flags, str(param.name)) + value)


def _option(*words: str, callback: Any = _keep, **more: Any) -> click.Option:
    return click.Option(list(words), expose_value=False, callback=callback, **more)


def _show_help(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(ctx.get_help())
        ctx.exit()


# click's own asks gettext for a translation, on every call
HELP = _option(
    "-h",
    "--help",
    callback=_show_help,
    is_flag=True,
    is_eager=True,
    help="Show this help",
)
_permission = partial(click.option, callback=_keep, expose_value=False)
INSIDE = _permission("--in", "inside", metavar="JOBID", help="Run inside this allocation of yours")
TRUST = _permission(
    *("--trust", "trust"),
    metavar="USER@HOST:ROOT",
    multiple=True,
    help="Allow a profile of the project to connect to this login",
)


def _choose_variant(ctx: click.Context, _: click.Parameter, name: str | None) -> None:
    """Remember the variant as ``--set`` would."""
    call = ctx.find_object(Call)
    if call is not None and name is not None:
        call.flags.sets += (f"variant={name}",)


VARIANT = click.option(
    "--variant",
    metavar="NAME",
    callback=_choose_variant,
    expose_value=False,
    help="Use these settings of variants: in job.yaml",
)


def _choose_race(ctx: click.Context, _: click.Parameter, words: tuple[str, ...]) -> None:
    """Remember the entries of a race as ``--set`` would."""
    call = ctx.find_object(Call)
    if call is not None and words:
        from jobgen.cli.race_words import write_race

        call.flags.sets += (f"race={write_race(words)}",)


RACE = click.option(
    "--race",
    metavar="K=V,…",
    multiple=True,
    callback=_choose_race,
    expose_value=False,
    help="Queue in several partitions, QOS, accounts or shapes",
)
OUTSIDE = _permission(
    "--allow-outside", is_flag=True, help="Read secrets from files outside the job's folder"
)
ON = click.option(
    "--on", metavar="CLUSTER", shell_complete=complete_clusters, help="Submit to another cluster"
)
EVERYWHERE = (
    _option(
        "-c",
        "--cluster",
        "cluster",
        metavar="NAME",
        shell_complete=complete_clusters,
        help="Cluster profile, by name or path [JOBGEN_CLUSTER]",
    ),
    _option(
        "--set",
        "sets",
        metavar="K=V",
        multiple=True,
        help="Set a variable or a key of job.yaml",
    ),
    _option("-y", "--yes", is_flag=True, help="Answer yes to every question"),
    _option("--json", is_flag=True, help="Print JSON"),
    _option("-q", "--quiet", count=True, callback=_count, help="Quiet output; -qq hides errors"),
    _option("-v", "--verbose", count=True, callback=_count, help="Show more details"),
    _option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        help="Use colours; auto respects NO_COLOR",
    ),
    _option("--ascii", is_flag=True, help="Use only ASCII characters"),
    _option("--debug", is_flag=True, help="Show tracebacks of internal errors"),
)
"""The flags, shared by all commands."""
NAMES = frozenset(str(p.name) for p in EVERYWHERE)
"""Their names, to tell them from a verb's own."""
