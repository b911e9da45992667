"""``jobgen plan``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import verb
from jobgen.cli.params import COUNTS, FILE, JOB


@verb(
    "plan",
    "jobgen plan                                        # ./job.yaml",
    "jobgen plan job.yaml -c a100x16",
    "jobgen plan -c a100x16 --set LR=3e-5 --diff",
    "jobgen plan -c a100x16 --why --nodes 1,2,4,8",
    "jobgen plan --compare a100x16,dgx-h100",
)
@JOB
@click.option("--diff", is_flag=True, help="Show what changed since the last run of this name")
@click.option("--against", metavar="ID", help="Show what changed since this run")
@click.option(
    "-U", "context", metavar="N", default=3, help="Lines of context around each difference"
)
@click.option("--exit-code", is_flag=True, help="Exit 8 if --diff finds a difference")
@click.option("--why", is_flag=True, help="Show each formula of the estimates and its source")
@click.option(
    "--nodes",
    metavar="N,N…",
    type=COUNTS,
    default=(),
    help="Estimate scaling over these numbers of nodes",
)
@click.option("--compare", metavar="NAME,NAME…", help="Compare clusters for the same work")
@click.option("--html", metavar="FILE", type=FILE, help="Write the estimates as an HTML page")
@click.option("--calibrated", is_flag=True, help="Scale memory by the last run's measurement")
@click.option("--exact", is_flag=True, help="Count parameters by building the model (slow)")
@click.option("--force", is_flag=True, help="Exit 0 even if a check fails")
def command(call: Call, job: Path, **chosen: Any) -> int:
    """Preview a job and explain each setting.

    JOB is ./job.yaml by default. Nothing is sent. If a check fails, exit as submit would: 3 for a
    line of a file, 6 for memory, else 1.
    """
    from jobgen.app.plan_extras import plan
    from jobgen.app.prepare import prepare
    from jobgen.cli import estimating
    from jobgen.cli.screens import plan as screens

    options = estimating.PlanOptions(**chosen)
    ready = prepare(call.world, job, estimating.choose_cluster(call, options), call.flags.sets)
    planned = plan(call.world, ready, diff=options.earlier, context=options.context)
    said = estimating.answer_planner(call, ready, job, options)
    draw = screens.Invocation(job=str(job), flags=call.flags)
    call.answer(
        lambda: {**screens.data(planned), **estimating.data(said)},
        lambda ink: screens.screen(
            planned, draw, ink, estimating.draw_section(said, ink), said.failed
        ),
        warnings=ready.plan.notes,
    )
    return estimating.choose_exit(said, planned, options)
