"""``port`` from its first line to its last."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

from jobgen.cli.output import is_tty

if TYPE_CHECKING:
    from jobgen.app.forwarding import ForwardedPort, PortRequest
    from jobgen.cli.call import Call


def show_port(call: Call, request: PortRequest, *, browse: bool) -> None:
    """Forward a port until Ctrl-C, or until the run no longer has the node."""
    from jobgen.app import forwarding
    from jobgen.app.jobs import describe_state

    begun = partial(_show_begun, call, browse=browse)
    try:
        record = forwarding.forward_port(call.world, request, begun)
    except KeyboardInterrupt:
        if is_tty(sys.stderr):
            call.output.say("")  # the terminal has just shown ^C
        return
    if record is not None:
        call.output.say(f"{record.alias} is {describe_state(record)}: the port is closed")


def _show_begun(call: Call, forwarded: ForwardedPort, *, browse: bool) -> None:
    from jobgen.cli.screens import port as screens

    call.answer(lambda: screens.dump_port(forwarded), lambda _: screens.draw_port(forwarded))
    for line in screens.list_notes(forwarded):
        call.output.say(line)
    if browse:
        import webbrowser

        webbrowser.open(forwarded.url)
