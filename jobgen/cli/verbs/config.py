"""``jobgen config``."""

from __future__ import annotations

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import verb


@verb("config", "jobgen config", "jobgen config --show-origin", "jobgen config cluster state")
@click.argument("keys", metavar="[KEY]...", nargs=-1)
@click.option("--show-origin", is_flag=True, help="Show where each value comes from")
def command(call: Call, keys: tuple[str, ...], show_origin: bool) -> None:
    """Show your settings: cluster, folders, ssh, colours, and what you allowed.

    Settings are environment variables and files in your own folders; there is no other
    configuration. Values that look like secrets are masked.
    """
    from jobgen.app import personal_settings
    from jobgen.cli.screens import config as screens

    found = personal_settings.list_settings(call.world, keys)
    call.answer(
        lambda: [setting._asdict() for setting in found],
        lambda ink: screens.draw_settings(found, ink, origins=show_origin),
    )
