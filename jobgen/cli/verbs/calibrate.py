"""``jobgen calibrate``."""

from __future__ import annotations

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import verb
from jobgen.cli.params import IDS
from jobgen.errors import Exit


@verb(
    "calibrate",
    "jobgen calibrate @last",
    "jobgen calibrate llama-3 llama-4 && jobgen plan job.yaml -c a100x16 --calibrated",
    "jobgen calibrate llama-3 --remove              # plans no longer use it",
)
@IDS
@click.option("--remove", is_flag=True, help="Stop using these runs")
@click.option("--force", is_flag=True, help="Use figures that are not plausible, too")
def command(call: Call, refs: tuple[str, ...], remove: bool, force: bool) -> int:
    """Compare finished runs with their plans, and correct later plans by them.

    Peaks of memory and step times come from the file $JOBGEN_REPORT_FILE and from the monitor.
    `jobgen plan` shows the median ratio of your runs on the same GPUs of that cluster;
    --calibrated applies it. A figure that is less than half or more than twice the planned one
    is shown and not used. Exits with 1 if nothing of a run can be used.

    ID is a run (llama-3), a job's name (its newest run), a Slurm job ID, or @last.
    """
    from jobgen.app import calibration
    from jobgen.cli.screens import calibrate as screens

    if remove:
        kept = calibration.forget_runs(call.world, refs)
        call.answer(lambda: screens.dump_result(kept), lambda i: screens.draw_kept(kept[1], i))
        return Exit.DONE
    found = calibration.calibrate_runs(call.world, refs, force=force)
    call.answer(lambda: screens.dump_result(found), lambda ink: screens.draw_result(found, ink))
    return Exit.FAILED if found.unused else Exit.DONE
