"""``jobgen help``."""

from __future__ import annotations

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import format_help, verb
from jobgen.cli.completers import complete_commands


@verb("help", "jobgen help", "jobgen help plan", "jobgen help cluster add")
@click.argument("names", metavar="[COMMAND]...", nargs=-1, shell_complete=complete_commands)
@click.pass_context
def command(ctx: click.Context, call: Call, names: tuple[str, ...]) -> None:
    """Show help for a command, as `jobgen COMMAND -h` does."""
    text = format_help(ctx.find_root(), names)
    call.answer(lambda: {"help": text}, lambda _: f"{text}\n")
