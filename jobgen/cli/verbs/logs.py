"""``jobgen logs``."""

from __future__ import annotations

from typing import Any

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import verb
from jobgen.cli.params import ID, Pattern, Ranks


@verb(
    "logs",
    "jobgen logs @last -f",
    "jobgen logs llama-3 --rank 0,8-15 --grep loss",
    "jobgen logs llama-3 --stderr -n 50",
)
@ID
@click.option("-f", "--follow", is_flag=True, help="Go on as the job goes on; Ctrl-C detaches.")
@click.option("-n", "--lines", type=click.IntRange(min=0), help="The last N lines of each rank.")
@click.option("--rank", "ranks", type=Ranks(), help="Only these: 0, 0,8-15, all.")
@click.option("--node", "nodes", multiple=True, help="Only this node; * stands for any letters.")
@click.option("--grep", type=Pattern(), default="", help="Only lines with this in them.")
@click.option("--stderr", is_flag=True, help="Only what was written to standard error.")
@click.option("--stdout", is_flag=True, help="Only what was written to standard output.")
@click.option("--task", metavar="N", help="Only this task of an array.")
@click.option("--restart", metavar="N", type=int, help="Only this restart; the first is 0.")
@click.option("--no-collapse", is_flag=True, help="Equal lines of several ranks, each on its own.")
@click.option("--no-prefix", is_flag=True, help="No node and rank before each line.")
@click.option("--raw", is_flag=True, help="Bytes as they are; not to a terminal.")
@click.option("--exit-status", is_flag=True, help="Exit with the job's result.")
def command(call: Call, ref: str, **options: Any) -> int:
    """Show what every rank prints, as one stream. Standard error is marked by ! before the line."""
    from jobgen.cli import following

    return following.show_logs(call, ref, following.LogsOptions(**options))
