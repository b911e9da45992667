"""``jobgen bench allreduce`` and ``jobgen bench scaling``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import Lazy, verb
from jobgen.cli.completers import complete_jobs
from jobgen.cli.flags import OUTSIDE, TRUST
from jobgen.cli.params import COUNTS, FILE, Ops, Sizes

VERBS = {
    "allreduce": (f"{__name__}:allreduce", "Measure all-reduce bandwidth; find the slow node"),
    "scaling": (f"{__name__}:scaling", "Compare throughput on several numbers of nodes or GPUs"),
}
command = Lazy(
    "bench",
    verbs=VERBS,
    help="Measure the network bandwidth of a cluster, and how a program scales",
)

DRY = click.option("-n", "--dry-run", is_flag=True, help="Show what would be sent; send nothing")
HTML = click.option("--html", metavar="FILE", type=FILE, help="Write the result as an HTML page")
COMPARE = click.option(
    "--compare", metavar="FILE", type=FILE, help="Compare with an earlier --json output"
)
READ = click.option(
    "--read", metavar="ID", shell_complete=complete_jobs, help="Show the result of an earlier bench"
)


@verb(
    "allreduce",
    "jobgen bench allreduce -c local",
    "jobgen bench allreduce -c a100x16 --like job.yaml   # its setup and container",
    "jobgen bench allreduce -c a100x16 --nodes 4 --pairs",
    "jobgen bench allreduce --read bench-allreduce-3 --html page.html",
)
@click.option(
    "--nodes", metavar="N", type=click.IntRange(1, 65_536), help="Number of nodes; default 2"
)
@click.option(
    "--sizes", metavar="A..B", type=Sizes(), help="Message sizes in bytes: 1M..1G, or 64K,16M"
)
@click.option(
    "--seconds",
    metavar="S",
    type=click.FloatRange(0.1, 600),
    default=2.0,
    help="Seconds per size; default 2",
)
@click.option("--ops", metavar="OP,OP…", type=Ops(), default=("all_reduce",), help=Ops.KNOWN)
@click.option("--pairs", is_flag=True, help="Measure each pair of nodes too, to find the slow node")
@click.option("--nccl-tests", is_flag=True, help="Run all_reduce_perf too, if the nodes have it")
@click.option("--like", metavar="JOB", type=FILE, help="Use setup, env and container of this job")
@click.option(
    "--min", "min_rate", metavar="GBPS", type=float, help="Exit 1 if the bus bandwidth is lower"
)
@click.option("--write", metavar="DIR", type=FILE, help="Write the job's files; send nothing")
@DRY
@TRUST
@OUTSIDE
@HTML
@COMPARE
@READ
def allreduce(call: Call, **options: Any) -> int:
    """Measure all-reduce bandwidth with a real job, and compare it with the link speed.

    Ctrl-C detaches and the job keeps running; --read shows its result later.
    `jobgen plan --calibrated` uses the result.
    """
    from jobgen.cli import benching

    return benching.run_allreduce(call, benching.AllreduceOptions(**options))


@verb(
    "scaling",
    "jobgen bench scaling -c a100x16 --nodes 1,2,4,8",
    "jobgen bench scaling job.yaml -c a100x16 --nodes 1,2 --strong",
    "jobgen bench scaling job.yaml -c a100x16 --gpus 1,2,4,8   # within a node",
    "jobgen bench scaling --read train-4,train-5 --json > today.json",
)
@click.argument("job", metavar="[JOB]", type=FILE, required=False)
@click.option("--nodes", metavar="N,N…", type=COUNTS, help="Numbers of nodes; default 1,2")
@click.option(
    "--gpus",
    metavar="N,N…",
    type=COUNTS,
    help="Numbers of GPUs on one node (or of CPU ranks)",
)
@click.option(
    "--weak",
    "kind",
    flag_value="weak",
    help="Weak scaling: train.global_batch grows with the size",
)
@click.option(
    "--strong",
    "kind",
    flag_value="strong",
    help="Strong scaling: train.global_batch stays the same",
)
@DRY
@TRUST
@OUTSIDE
@HTML
@COMPARE
@READ
def scaling(call: Call, job: Path | None, **options: Any) -> int:
    """Run a job on several numbers of nodes or GPUs, and compare throughput and efficiency.

    JOB is ./job.yaml by default. The sizes run one after the other. The program writes its
    throughput to $JOBGEN_REPORT_FILE. Ctrl-C detaches and the jobs go on.
    """
    from jobgen.cli import scaling_bench

    return scaling_bench.run_scaling(call, job, scaling_bench.ScalingOptions(**options))
