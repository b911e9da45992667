"""``jobgen doctor``."""

from __future__ import annotations

from jobgen.cli.call import Call
from jobgen.cli.commands import verb
from jobgen.cli.flags import TRUST


@verb("doctor", "jobgen doctor", "jobgen doctor -c a100x16", "jobgen doctor -c a100x16 --json")
@TRUST
def command(call: Call) -> int:
    """Check this machine, or a cluster with -c, for problems, and show how to fix them.

    Nothing is submitted and nothing is left behind. Exit 1 if a check fails.
    """
    from jobgen.app.doctor import examine
    from jobgen.cli.screens import doctor as screens

    found = examine(call.world, call.flags.cluster)
    call.answer(lambda: screens.data(found), lambda ink: screens.screen(found, ink))
    return screens.choose_exit(found)
