"""When Slurm expects a job to start, asked before it is submitted."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from jobgen.payload import text
from jobgen.scheduler.slurm import SlurmScheduler
from jobgen.shell import Result, build_script

if TYPE_CHECKING:
    from jobgen.app.prepare import PreparedJob
    from jobgen.transport import Transport

DEADLINE = 30.0
_ASK = """
clean_environment
script=$1
shift
date +%Y-%m-%dT%H:%M:%S
printf '%s' "$script" | timeout 10 sbatch --test-only "$@" 2>&1
"""


class StartEstimate(NamedTuple):
    """When a job would start if nothing else changed."""

    clock: str
    """The time of day there, such as ``18:40``; with the date if it is another day."""
    seconds: float
    """From now."""


def estimate_start(transport: Transport, ready: PreparedJob) -> StartEstimate | None:
    """What ``sbatch --test-only`` expects; None if it cannot tell. Raises Unreachable.

    A job that waits for others or for a time is not asked about: the answer would be wrong.
    """
    plan = ready.plan
    begins = any(option.startswith(("--dependency", "--begin")) for option in plan.submit_options)
    if plan.scheduler != "slurm" or begins or "begin" in ready.job.value.slurm:
        return None
    script = ready.bundle[ready.bundle.entry].content.decode()
    asked = build_script(text("common.sh") + _ASK, script, *plan.submit_options)
    return parse_estimate(transport.call(asked, deadline=DEADLINE))


def parse_estimate(result: Result) -> StartEstimate | None:
    """The time there, and then the answer of sbatch; None for anything else."""
    first, _, said = result.text.partition("\n")
    tested = SlurmScheduler().parse_test(Result(result.code, said.encode()))
    with suppress(ValueError, TypeError, OverflowError):
        now = datetime.fromisoformat(first.strip())
        start = datetime.fromisoformat(tested.start)
        seconds = (start - now).total_seconds()
        form = "%H:%M" if start.date() == now.date() else "%a %d %b, %H:%M"
        return StartEstimate(start.strftime(form), max(seconds, 0.0))
    return None
