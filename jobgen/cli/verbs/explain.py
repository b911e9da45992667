"""``jobgen explain``."""

from __future__ import annotations

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import verb


@verb("explain", "jobgen explain J131", "jobgen explain")
@click.argument("code", required=False)
def command(call: Call, code: str | None) -> None:
    """Say what a code such as J131 means: why it is refused, and what to write instead.

    Without a code, lists all of them.
    """
    from jobgen.app import explaining
    from jobgen.cli.screens import explain as screens

    found = explaining.explain(code)
    call.answer(lambda: screens.data(found), lambda ink: screens.screen(found, ink))
