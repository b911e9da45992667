"""``jobgen plan``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import verb
from jobgen.cli.flags import OUTSIDE, RACE, TRUST, VARIANT
from jobgen.cli.params import COUNTS, FILE, JOB, SECTIONS


@verb(
    "plan",
    "jobgen plan job.yaml -c a100x16                  # in short; -v: everything",
    "jobgen plan job.yaml -c a100x16 --section env    # variables, with origins",
    "jobgen plan job.yaml --why --nodes 1,2,4,8 --compare a100x16,dgx-h100",
)
@JOB
@VARIANT
@RACE
@click.option(
    "--section",
    multiple=True,
    metavar="NAME,…",
    type=SECTIONS,
    help=f"Show only these sections: {', '.join(SECTIONS.KNOWN)}",
)
@click.option("--diff", is_flag=True, help="Show only what changed since the last run")
@click.option("--against", metavar="ID", help="Show only what changed since this run")
@click.option("-U", "context", metavar="N", default=3, help="Lines of context in a diff")
@click.option("--exit-code", is_flag=True, help="Like --diff; exits 8 if there is a difference")
@click.option("--why", is_flag=True, help="Add every formula of the estimates and its source")
@click.option(
    "--nodes", metavar="N,N…", type=COUNTS, default=(), help="Node counts for the scaling table"
)
@click.option("--compare", metavar="NAME,NAME…", help="Compare with these clusters")
@click.option("--html", metavar="FILE", type=FILE, help="Write the estimates to a web page")
@click.option("--calibrated", is_flag=True, help="Correct the estimates by your calibrated runs")
@click.option("--exact", is_flag=True, help="Count parameters by building the model (slow)")
@click.option("--measure", is_flag=True, help="Measure your own model (train.model: FILE.py:NAME)")
@click.option("--on-cluster", is_flag=True, help="With --measure: by a short job on the cluster")
@click.option("--dry-run", is_flag=True, help="With --on-cluster: show the job; send nothing")
@TRUST
@OUTSIDE
@click.option("--force", is_flag=True, help="Exit 0 even if a check fails")
def command(call: Call, job: Path, **chosen: Any) -> int:
    """Preview a job: size, cost, memory, warnings, and what would be sent.

    JOB: ./job.yaml by default. Exit codes: 3 an error in a file, 6 does not fit.
    """
    from jobgen.app.plan_problems import list_warnings
    from jobgen.cli import estimating, measuring_dialog
    from jobgen.cli.screens import plan as screens

    options = estimating.PlanOptions(**chosen)
    ended = measuring_dialog.measure(call, job, options)
    if ended is not None:
        return ended
    preview = estimating.prepare_preview(call, job, options)
    call.answer(
        lambda: {**screens.data(preview.planned), **estimating.data(preview.answer)},
        lambda ink: screens.screen(preview, ink, options.sections),
        warnings=list_warnings(preview.plan),
    )
    call.complain(estimating.list_hidden_errors(preview, call.flags, options))
    return estimating.choose_exit(preview.answer, preview.planned, options)
