"""A race: which jobs wait for the run."""

from __future__ import annotations

from jobgen.model.race import describe_entry, list_words
from jobgen.resolve.inputs import Inputs
from jobgen.resolve.shape import Sized


def plan_race(look: Inputs, sized: Sized) -> tuple[tuple[str, ...], ...]:
    """The words for sbatch of each job of a race; none of a run with one job."""
    race = look.job.race
    if not race:
        return ()
    why = "the first job to start runs it and withdraws the others"
    entries = " | ".join(map(describe_entry, race))
    sized.decide("race", entries, why, look.cite_job("race"))
    return list_words(race)
