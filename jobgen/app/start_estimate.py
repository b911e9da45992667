"""When Slurm expects a job to start, and what its account may use, asked before it is submitted."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from jobgen.named_tuple import NamedTuple
from jobgen.payload import text
from jobgen.scheduler.allowances import Allowance, parse_allowances
from jobgen.scheduler.slurm import SlurmScheduler
from jobgen.shell import Result, build_script, quote, quote_expandable
from jobgen.submission import wire

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jobgen.app.prepare import PreparedJob
    from jobgen.model.part_plans import HubPlan
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
    missing: MissingModel | None = None
    """A model that its Hugging Face cache lacks, as the login host sees it."""


class MissingModel(NamedTuple):
    """A model that no node can download."""

    name: str
    cache: str

    @property
    def command(self) -> str:
        """What downloads it on a host with internet."""
        return f"HF_HUB_CACHE={quote(self.cache)} hf download {quote(self.name)}"


def ask_outlook(transport: Transport, ready: PreparedJob) -> Outlook:
    """What ``sbatch --test-only`` and accounting say. Raises Unreachable.

    Of a job that waits for others or for a time, no start is given: the answer would be wrong.
    """
    plan = ready.plan
    if plan.scheduler != "slurm":
        return Outlook(None, [])
    script = ready.bundle[ready.bundle.entry].content.decode()
    names = [each.value if (each := plan.directives.get(key)) else "" for key in ("account", "qos")]
    asked = build_question(script, (names[0], names[1]), plan.hub, plan.submit_options)
    model = plan.hub.model if plan.hub else ""
    outlook = parse_outlook(transport.call(asked, deadline=DEADLINE), model)
    waits = any(option.startswith(("--dependency", "--begin")) for option in plan.submit_options)
    return outlook._replace(start=None) if waits or "begin" in ready.job.value.slurm else outlook


def build_question(
    script: str, charged: tuple[str, str], hub: HubPlan | None, options: Sequence[str]
) -> str:
    """The script that asks; ``charged`` are the job's account and QOS."""
    places = "" if hub is None else _assign(hub.places)
    scripts = map(text, ("common.sh", "account_limits.sh", "before_submit.sh"))
    model = "" if hub is None else hub.model
    return build_script(places + "".join(scripts), script, *charged, model, *options)


def _assign(places: Mapping[str, str]) -> str:
    return "".join(f"hub_{name}={quote_expandable(value)}\n" for name, value in places.items())


def parse_outlook(result: Result, model: str = "") -> Outlook:
    """What the script said of the job and its model; nothing is known where it did not say it."""
    try:
        said = wire.index(wire.split_frames(result.out))
    except wire.GarbledError:
        return Outlook(None, [])
    start = _parse_start(said.get("now", ""), said.get("test", ""))
    missing = MissingModel(model, said["hub"]) if model and "hub" in said else None
    return Outlook(start, parse_allowances(said.get("limits", "")), missing)


def _parse_start(clock: str, said: str) -> StartEstimate | None:
    tested = SlurmScheduler().parse_test(Result(0, said.encode()))
    with suppress(ValueError, TypeError, OverflowError):
        now = datetime.fromisoformat(clock)
        start = datetime.fromisoformat(tested.start)
        seconds = (start - now).total_seconds()
        form = "%H:%M" if start.date() == now.date() else "%a %d %b, %H:%M"
        return StartEstimate(start.strftime(form), max(seconds, 0.0))
    return None
