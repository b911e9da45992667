"""``jobgen port``."""

from __future__ import annotations

from typing import Any

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import verb
from jobgen.cli.params import GROUP, ID, NODE, RANK, PortPair


@verb(
    "port",
    "jobgen port @last 6006 --open              # TensorBoard on the first node",
    "jobgen port llama-3 5678 --rank 8          # a debugger in rank 8",
    "jobgen port llama-3 8888:9000 --node n2",
)
@ID
@click.argument("ports", metavar="PORT[:LOCAL]", type=PortPair())
@NODE
@RANK
@GROUP
@click.option("--open", "browse", is_flag=True, help="Open it in the web browser")
def command(
    call: Call, ref: str, ports: tuple[int, int | None], *, browse: bool, **where: Any
) -> None:
    """Forward a port of a running job's node to this machine.

    Connections to 127.0.0.1 go through the login host to the node. If the local port is taken,
    another one is used. Ends with Ctrl-C, or when the job no longer runs on the node.
    """
    from jobgen.app.attaching import NodeChoice
    from jobgen.app.forwarding import PortRequest
    from jobgen.cli.port_dialog import show_port

    show_port(call, PortRequest(NodeChoice(ref, **where), *ports), browse=browse)
