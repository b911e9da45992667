"""``jobgen sh``."""

from __future__ import annotations

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import verb
from jobgen.cli.params import GROUP, ID, NODE, RANK


@verb(
    "sh",
    "jobgen sh @last",
    "jobgen sh llama-3 --node n2 -- nvidia-smi",
    "jobgen sh llama-3 --rank 8 -- sh -c 'py-spy dump --pid $JOBGEN_RANK_PID'",
    "jobgen sh 'scan-1[3]'",
)
@ID
@NODE
@RANK
@GROUP
@click.argument("words", metavar="[-- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
def command(
    call: Call, ref: str, node: str, rank: int | None, group: str, words: tuple[str, ...]
) -> int | None:
    """Open a shell, or run a command, on a node of a running job.

    It runs inside the job's allocation, in the program's working directory and container, and
    with the environment of the rank, or of the lowest rank of the node. By default it is the
    first node. Exits with the exit code of the command; Ctrl-C goes to the command.
    """
    from jobgen.app.attaching import NodeChoice
    from jobgen.cli.shell_dialog import run_shell

    return run_shell(call, NodeChoice(ref, node, rank, group), words)
