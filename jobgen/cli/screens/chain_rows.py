"""The jobs of a chain: which one runs, which wait, and which were refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobgen.cli.output import defuse
from jobgen.model.chain import list_chain

if TYPE_CHECKING:
    from jobgen.model.plan import Plan
    from jobgen.model.record import RunRecord


def describe_chain(plan: Plan) -> str:
    """``3 jobs, one after another: each resumes …``; empty for a job without a chain."""
    length = plan.stop.chain if plan.stop else 0
    return f"{length} jobs, one after another, until training ends" if length else ""


def list_chain_rows(record: RunRecord) -> list[str]:
    """Which job of a chain this is, which wait for it, and which are not queued; nothing of other
    runs."""
    chain = list_chain(record)
    refused = [
        f"not queued: job {number} of {len(chain)}: {defuse(each.failure)}"
        for number, each in enumerate(chain, start=1)
        if each.failure
    ]
    known = [each.job for each in chain]
    if record.job not in known:
        return refused
    number = known.index(record.job) + 1
    waiting = ", ".join(str(job) for job in known[number:] if job)
    row = f"chain: job {number} of {len(chain)}"
    if waiting:
        row += f"; not needed: {waiting}" if record.ended else f"; then: {waiting}"
    return [row, *refused]


def dump_chain(record: RunRecord) -> dict[str, Any]:
    """The jobs of a chain as plain data; nothing of other runs."""
    jobs = [
        {"slurm_id": each.job and str(each.job), "failure": each.failure or None}
        for each in list_chain(record)
    ]
    return {"chain": jobs} if jobs else {}
