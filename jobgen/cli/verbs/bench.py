"""``jobgen bench allreduce`` and ``jobgen bench scaling``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import Lazy, verb
from jobgen.cli.flags import OUTSIDE, TRUST
from jobgen.cli.params import COUNTS, FILE, Ops, Sizes, complete_jobs

VERBS = {
    "allreduce": (f"{__name__}:allreduce", "Bandwidth of collectives, and the slow node."),
    "scaling": (f"{__name__}:scaling", "Your own program on more and more nodes."),
}
command = Lazy("bench", verbs=VERBS, help="Measure a cluster: its links, and how a program scales.")

DRY = click.option("-n", "--dry-run", is_flag=True, help="Show what would be sent; send nothing.")
HTML = click.option("--html", metavar="FILE", type=FILE, help="Write the result as one page.")
COMPARE = click.option("--compare", metavar="FILE", type=FILE, help="A former answer of --json.")
READ = click.option(
    "--read", metavar="ID", shell_complete=complete_jobs, help="A bench that was sent before."
)


@verb(
    "allreduce",
    "jobgen bench allreduce -c local",
    "jobgen bench allreduce -c a100x16 --like job.yaml   # its setup and container",
    "jobgen bench allreduce -c a100x16 --nodes 4 --pairs",
    "jobgen bench allreduce --read bench-allreduce-3 --html page.html",
)
@click.option("--nodes", metavar="N", type=click.IntRange(1, 65_536), help="Nodes; 2 by default.")
@click.option("--sizes", metavar="A..B", type=Sizes(), help="Bytes: 1M..1G, or 64K,16M.")
@click.option("--seconds", type=click.FloatRange(0.1, 600), default=2.0, help="For each size; 2.")
@click.option("--ops", metavar="OP,OP…", type=Ops(), default=("all_reduce",), help=Ops.KNOWN)
@click.option("--pairs", is_flag=True, help="Each pair of nodes too: names the slow node.")
@click.option("--nccl-tests", is_flag=True, help="Run all_reduce_perf too, where a node has it.")
@click.option("--like", metavar="JOB", type=FILE, help="Take setup, env, container of this job.")
@click.option("--min", "min_rate", metavar="GBPS", type=float, help="Exit 1 below this busbw.")
@click.option("--write", metavar="DIR", type=FILE, help="Write the job's files; send nothing.")
@DRY
@TRUST
@OUTSIDE
@HTML
@COMPARE
@READ
def allreduce(call: Call, **options: Any) -> int:
    """Measure all-reduces of a cluster by a real job, against what its links can carry.

    Ctrl-C leaves the job going; --read shows it later. plan --calibrated uses the result.
    """
    from jobgen.cli import benching

    return benching.run_allreduce(call, benching.AllreduceOptions(**options))


@verb(
    "scaling",
    "jobgen bench scaling job.yaml -c a100x16 --nodes 1,2,4,8",
    "jobgen bench scaling job.yaml -c a100x16 --nodes 1,2 --strong",
    "jobgen bench scaling --read train-4,train-5 --json > today.json",
)
@click.argument("job", metavar="[JOB]", type=FILE, required=False)
@click.option("--nodes", metavar="N,N…", type=COUNTS, default=(1, 2), help="Sizes; 1,2 by default.")
@click.option("--weak", "kind", flag_value="weak", help="train.global_batch grows with the nodes.")
@click.option("--strong", "kind", flag_value="strong", help="train.global_batch stays.")
@DRY
@TRUST
@OUTSIDE
@HTML
@COMPARE
@READ
def scaling(call: Call, job: Path | None, **options: Any) -> int:
    """Run a job at each size, one after the other: throughput, efficiency, what holds it back.

    The program tells its throughput in $JOBGEN_REPORT_FILE. Ctrl-C leaves the jobs going.
    """
    from jobgen.cli import scaling_bench

    return scaling_bench.run_scaling(call, job, scaling_bench.ScalingOptions(**options))
