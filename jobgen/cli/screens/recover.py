"""The answer of ``recover``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobgen.cli.output import Ink, defuse
from jobgen.cli.screens import job_table
from jobgen.cli.screens.job_data import dump_job
from jobgen.wording import count

if TYPE_CHECKING:
    from jobgen.app.recovering import Recovered


def screen(found: Recovered, now: float, ink: Ink) -> str:
    """The runs that were taken up, and how many others there are."""
    head = f"{count(len(found.records), 'run')} recovered, {found.known} known before\n"
    rows = job_table.draw_jobs(found.records, now, ink, clipped=False) if found.records else ""
    others = "".join(f"not a submitted run: {defuse(path)}\n" for path in found.passed_over)
    return f"{ink('strong', head)}{rows}{others}"


def data(found: Recovered) -> dict[str, Any]:
    """What was recovered, as plain data."""
    return {
        "recovered": [dump_job(record) for record in found.records],
        "known": found.known,
        "passed_over": list(found.passed_over),
    }
