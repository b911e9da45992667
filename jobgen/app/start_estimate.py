"""When Slurm expects a job to start, and what its account may use, asked before it is submitted."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from jobgen.named_tuple import NamedTuple
from jobgen.payload import text
from jobgen.scheduler.allowances import Allowance, parse_allowances
from jobgen.scheduler.slurm import SlurmScheduler
from jobgen.shell import Result, build_script
from jobgen.submission import wire

if TYPE_CHECKING:
    from jobgen.app.prepare import PreparedJob
    from jobgen.transport import Transport

DEADLINE = 30.0


class StartEstimate(NamedTuple):
    """When a job would start if nothing else changed."""

    clock: str
    """The time of day there, such as ``18:40``; with the date if it is another day."""
    seconds: float
    """From now."""


class Outlook(NamedTuple):
    """What is known of a job before it is submitted."""

    start: StartEstimate | None
    """None where sbatch cannot tell."""
    allowances: list[Allowance]
    """Limits on GPUs, the user's own first; empty where accounting tells none."""


def ask_outlook(transport: Transport, ready: PreparedJob) -> Outlook:
    """What ``sbatch --test-only`` and accounting say. Raises Unreachable.

    Of a job that waits for others or for a time, no start is given: the answer would be wrong.
    """
    plan = ready.plan
    if plan.scheduler != "slurm":
        return Outlook(None, [])
    script = ready.bundle[ready.bundle.entry].content.decode()
    names = [each.value if (each := plan.directives.get(key)) else "" for key in ("account", "qos")]
    asked = build_script(
        "".join(map(text, ("common.sh", "account_limits.sh", "before_submit.sh"))),
        script,
        *names,
        *plan.submit_options,
    )
    outlook = parse_outlook(transport.call(asked, deadline=DEADLINE))
    waits = any(option.startswith(("--dependency", "--begin")) for option in plan.submit_options)
    return outlook._replace(start=None) if waits or "begin" in ready.job.value.slurm else outlook


def parse_outlook(result: Result) -> Outlook:
    """What the script said; nothing is known where it did not say it."""
    try:
        said = wire.index(wire.split_frames(result.out))
    except wire.GarbledError:
        return Outlook(None, [])
    start = _parse_start(said.get("now", ""), said.get("test", ""))
    return Outlook(start, parse_allowances(said.get("limits", "")))


def _parse_start(clock: str, said: str) -> StartEstimate | None:
    tested = SlurmScheduler().parse_test(Result(0, said.encode()))
    with suppress(ValueError, TypeError, OverflowError):
        now = datetime.fromisoformat(clock)
        start = datetime.fromisoformat(tested.start)
        seconds = (start - now).total_seconds()
        form = "%H:%M" if start.date() == now.date() else "%a %d %b, %H:%M"
        return StartEstimate(start.strftime(form), max(seconds, 0.0))
    return None
