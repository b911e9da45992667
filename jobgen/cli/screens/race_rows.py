"""The jobs of a race: before it is submitted, while they wait, and which one runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobgen.cli.output import defuse
from jobgen.model.race import RaceEntry, find_winner, list_entries, read_race
from jobgen.wording import count

if TYPE_CHECKING:
    from jobgen.model.plan import Plan
    from jobgen.model.record import RunRecord


def describe_race(plan: Plan) -> str:
    """``2 jobs, the first to start runs: partition=short | partition=long``."""
    names = " | ".join(RaceEntry(words).name for words in plan.race)
    return f"{count(len(plan.race), 'job')}, the first to start runs: {defuse(names)}"


def name_jobs(record: RunRecord) -> str:
    """The ids of a run: that of the winner of a race, else those of all its entries."""
    jobs = [str(entry.job) for entry in list_entries(record) if entry.job]
    if jobs and find_winner(record) is None:
        return ", ".join(jobs)
    return str(record.job)


def list_race(record: RunRecord) -> list[str]:
    """Which job of a race runs and why others are gone, or which wait; nothing of other runs."""
    entries, winner = list_entries(record), find_winner(record)
    lines = [f"not queued: {defuse(e.name)}: {defuse(e.failure)}" for e in entries if e.failure]
    queued = [entry for entry in entries if entry.job is not None]
    if winner is None:
        names = ", ".join(map(_name_entry, queued))
        return [f"race: the first to start runs: {names}", *lines] if queued else lines
    won = ", ".join(_name_entry(entry) for entry in queued if entry.job == winner)
    lost = ", ".join(_name_entry(entry) for entry in queued if entry.job != winner)
    how = "withdrawn" if record.submission.get("withdrawn") else "being withdrawn"
    return [f"race: {won} started first; {how}: {lost}" if lost else f"race: {won} runs", *lines]


def _name_entry(entry: RaceEntry) -> str:
    return f"{defuse(entry.name)} ({entry.job})"


def dump_race(record: RunRecord) -> dict[str, Any]:
    """The entries of a race as plain data; nothing of other runs."""
    if not read_race(record.shape):
        return {}
    winner = find_winner(record)
    entries = [
        {
            "entry": entry.name,
            "slurm_id": entry.job and str(entry.job),
            "won": None if winner is None else entry.job == winner,
            "failure": entry.failure or None,
        }
        for entry in list_entries(record)
    ]
    return {"race": entries}
