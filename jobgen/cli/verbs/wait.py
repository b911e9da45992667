"""``jobgen wait``."""

from __future__ import annotations

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import verb
from jobgen.cli.params import IDS, Duration


@verb(
    "wait",
    "jobgen wait @last && echo done",
    "jobgen wait llama-3 llama-4 --timeout 2h",
    "jobgen wait llama-3 llama-4 --any",
)
@IDS
@click.option("--timeout", type=Duration(), help="Give up after this time, with exit code 124")
@click.option("--any", "any_one", is_flag=True, help="Return when the first job has ended")
def command(call: Call, refs: tuple[str, ...], timeout: float | None, any_one: bool) -> int:
    """Wait for jobs to end.

    ID is a run (llama-3), a job's name (its newest run), a Slurm job ID, or @last;
    with [3,7-9] behind it, elements of an array.
    Exits 0 if all of them COMPLETED, else 1. Ctrl-C stops waiting; the jobs go on.
    """
    from jobgen.cli.following import wait_for_end

    return wait_for_end(call, refs, timeout=timeout, any_one=any_one)
