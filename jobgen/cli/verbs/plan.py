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
    "jobgen plan job.yaml -c a100x16",
    "jobgen plan job.yaml -c a100x16 --set LR=3e-5 --diff",
    "jobgen plan job.yaml -c a100x16 --why --nodes 1,2,4,8",
    "jobgen plan job.yaml --compare a100x16,h100x32",
    "jobgen plan job.yaml -c a100x16 --json",
)
@JOB
@click.option("--diff", is_flag=True, help="What changed since the last run of that name.")
@click.option("--against", metavar="ID", help="The same since another run.")
@click.option("-U", "context", metavar="N", default=3, help="Lines round each difference.")
@click.option("--exit-code", is_flag=True, help="Exit 8 where --diff finds a difference.")
@click.option("--why", is_flag=True, help="Every formula of the estimates, and its source.")
@click.option("--nodes", metavar="N,N…", type=COUNTS, default=(), help="How it scales.")
@click.option("--compare", metavar="NAME,NAME…", help="Clusters side by side, for the same work.")
@click.option("--html", metavar="FILE", type=FILE, help="Write the estimates as one page.")
@click.option("--calibrated", is_flag=True, help="Scale memory by what the last run measured.")
@click.option("--exact", is_flag=True, help="Count parameters by building the model (slow).")
@click.option("--force", is_flag=True, help="Exit 0 although a check fails.")
def command(call: Call, job: Path, **chosen: Any) -> int:
    """Show what a job would do: every decision with its why, memory, files, upload, checks.

    If a check fails, exit as submit would: 3 for a line of a file, 6 for memory, else 1.
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
