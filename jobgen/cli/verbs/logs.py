"""``jobgen logs``."""

from __future__ import annotations

from typing import Any

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import verb
from jobgen.cli.completers import complete_nodes
from jobgen.cli.params import ID, Duration, Pattern, Ranks


@verb(
    "logs",
    "jobgen logs @last -f",
    "jobgen logs llama-3 --rank 0,8-15 --grep loss",
    "jobgen logs llama-3 --rank 3 --stderr -n 20",
    "jobgen logs llama-3 --since 10m --timestamps",
)
@ID
@click.option("-f", "--follow", is_flag=True, help="Show lines as they come; Ctrl-C detaches")
@click.option(
    "-n", "--lines", metavar="N", type=click.IntRange(min=0), help="Show only the last N lines"
)
@click.option("--since", type=Duration(), help="Show only lines from the last TIME: 10m, 2h, 1d")
@click.option("--rank", "ranks", type=Ranks(), help="Show only these ranks: 0, 0,8-15, all")
@click.option(
    *("--node", "nodes"),
    metavar="NAME",
    multiple=True,
    shell_complete=complete_nodes,
    help="Show only this node; * matches any text",
)
@click.option(
    *("--step", "--group", "steps"),
    metavar="NAME",
    multiple=True,
    help="Show only this step or group",
)
@click.option("--file", "files", metavar="NAME", multiple=True, help="Show only this log file")
@click.option("--grep", type=Pattern(), default="", help="Show only lines that match")
@click.option("--stderr", is_flag=True, help="Show only standard error")
@click.option("--stdout", is_flag=True, help="Show only standard output")
@click.option("--task", metavar="N", help="Show only these elements of an array: 3,7-9")
@click.option("--restart", metavar="N", type=int, help="Show only this restart; the first is 0")
@click.option("--timestamps", is_flag=True, help="Show the time of each line, if it is known")
@click.option("--no-collapse", is_flag=True, help="Repeat lines that several ranks share")
@click.option("--no-prefix", is_flag=True, help="Leave out node and rank before each line")
@click.option("--raw", is_flag=True, help="Write the bytes unchanged; not to a terminal")
@click.option("--exit-status", is_flag=True, help="Exit with the job's status")
def command(call: Call, ref: str, **options: Any) -> int:
    """Show the logs of all ranks as one stream.

    ID is a run (llama-3), a job's name (its newest run), a Slurm job ID, or @last.
    Each line starts with its node and rank; what several ranks wrote is shown once (*: several
    nodes, r*: all ranks, !: standard error). What only follows from a failure is folded; -v
    shows it.
    """
    from jobgen.cli.following import show_logs
    from jobgen.cli.log_options import LogsOptions

    return show_logs(call, ref, LogsOptions(**options))
