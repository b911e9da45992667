"""scancel: leave the wish with the job's supervisor."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from . import options
from .errors import CommandError
from .job_request import signal_number
from .records import Job
from .store import Store


def main(store: Store, words: Sequence[str]) -> int:
    """Cancel jobs, or send them a signal. Asking is all; squeue tells what came of it."""
    wanted, rest = options.parse("scancel", options.SCANCEL, words)
    if "version" in wanted:
        print(options.VERSION)
        return 0
    wish = _wish(wanted)
    code = 0
    for job in _chosen(store, wanted, rest):
        if isinstance(job, Job):
            store.ask(job.request.id, wish)
        elif wish["do"] == "signal" or "verbose" in wanted:
            text = f"Kill job error on job id {job}: Invalid job id specified"
            print(f"scancel: error: {text}", file=sys.stderr)
            code = 1
    return code


def _wish(wanted: Mapping[str, str]) -> dict[str, object]:
    if "signal" not in wanted:
        return {"do": "cancel"}
    number = signal_number(wanted["signal"])
    if number is None:
        raise CommandError(f"Unknown job signal: {wanted['signal']}")
    return {
        "do": "signal",
        "signal": number,
        "batch": "batch" in wanted,
        "full": "full" in wanted,
    }


def _chosen(store: Store, wanted: Mapping[str, str], rest: list[str]) -> list[Job | str]:
    for word in rest:
        if not word.partition("_")[0].isdigit():
            raise CommandError(f"scancel: error: Invalid job id {word}")
    if rest:
        return [store.job(int(word.partition("_")[0])) or word for word in rest]
    if not wanted.keys() & {"name", "user", "me", "state"}:
        raise CommandError("scancel: error: No job identification provided")
    return [
        job
        for job in store.jobs(store.active())
        if wanted.get("name", job.request.name) == job.request.name
        and wanted.get("user", job.request.user) == job.request.user
        and wanted.get("state", job.status.state) == job.status.state
    ]
