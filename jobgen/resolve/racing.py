"""A race: which jobs wait for the run, and which of them have a shape of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from jobgen.errors import Diagnostic, Place
from jobgen.model.race import RaceOptions, list_words, read_shape
from jobgen.resolve.inputs import Inputs
from jobgen.resolve.shape import Sized
from jobgen.wording import join_pairs

if TYPE_CHECKING:
    from jobgen.model.loaded import Path
    from jobgen.model.plan import Plan

P = TypeVar("P")


def plan_race(look: Inputs, sized: Sized) -> tuple[tuple[str, ...], ...]:
    """The words of each job of a race; none of a run with one job."""
    race = look.job.race
    if not race:
        return ()
    why = "the first job to start runs it and withdraws the others"
    entries = " | ".join(map(join_pairs, race))
    sized.decide("race", entries, why, look.cite_job("race"))
    return list_words(race)


def split_shapes(look: Inputs) -> dict[int, Inputs]:
    """Number of the first entry of each shape → the job of all entries with this shape; empty if
    one script serves all entries."""
    race = look.job.race
    if not any(map(read_shape, race)):
        return {}
    looks = [_choose_entry(look, number, entry) for number, entry in enumerate(race)]
    sizes = [_measure(each) for each in looks]
    firsts = [number for number, size in enumerate(sizes) if size not in sizes[:number]]
    same = {n: [race[m] for m, size in enumerate(sizes) if size == sizes[n]] for n in firsts}
    return {number: looks[number]._replace(entries=tuple(same[number])) for number in firsts}


def _choose_entry(look: Inputs, number: int, options: RaceOptions) -> Inputs:
    """The job with the shape of an entry, which stands on the line of the entry."""
    shape = read_shape(options)
    own: dict[Path, Place] = {(name,): look.spec.find_place("race", number, name) for name in shape}
    kept = {path: place for path, place in look.spec.overrides.items() if path not in own}
    least = None if "nodes" in shape else look.job.min_nodes
    job = look.job.replace(**shape, min_nodes=least)
    places = {**look.spec.places, **own}
    return look._replace(spec=look.spec._replace(value=job, places=places, overrides=kept))


def _measure(look: Inputs) -> tuple[int | None, ...]:
    job = look.job
    return job.nodes, job.min_nodes, job.gpus_per_node, job.procs_per_node


def combine_shapes(look: Inputs, plans: Mapping[int, Plan]) -> Plan:
    """The plan of the first entry, with those of entries whose shape differs."""
    (_, first), *others = plans.items()
    notes = name_entries(look, {number: plan.notes for number, plan in plans.items()})
    failing = {n: [c for c in plan.checks if c.status != "ok"] for n, plan in plans.items()}
    checks = (
        *(check for check in first.checks if check.status == "ok"),
        *(
            check._replace(message=_name_entry(look, number, check.message), entry=number or 0)
            for number, check in _find_entries(failing)
        ),
    )
    return first._replace(race_plans=tuple(others), notes=notes, checks=checks)


def name_entries(
    look: Inputs, problems: Mapping[int, Sequence[Diagnostic]]
) -> tuple[Diagnostic, ...]:
    """The problems of all shapes, each once; the entry is named where not all have it."""
    return tuple(
        problem._replace(message=_name_entry(look, number, problem.message))
        for number, problem in _find_entries(problems)
    )


def _name_entry(look: Inputs, number: int | None, message: str) -> str:
    if number is None:
        return message
    return f"race: {join_pairs(look.job.race[number])}: {message}"


def _find_entries(problems: Mapping[int, Sequence[P]]) -> list[tuple[int | None, P]]:
    """Each problem with the number of its entry; None where all shapes have it."""
    first, *others = problems.values()
    common = [each for each in first if all(each in some for some in others)]
    named = [(n, each) for n, some in problems.items() for each in some if each not in common]
    return [*((None, each) for each in common), *named]
