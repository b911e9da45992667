"""``steps:`` → a job for each, decided like any other, and one plan that runs them in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from jobgen.errors import Diagnostic
from jobgen.model.decision import Setting
from jobgen.model.loaded import Path
from jobgen.model.part_plans import StopPlan
from jobgen.model.plan import Plan, ProgramPlan
from jobgen.resolve.inputs import Inputs
from jobgen.resolve.part_images import give_image
from jobgen.shell import list_names

if TYPE_CHECKING:
    from jobgen.model.groups import JobGroup
    from jobgen.model.job import JobSpec
    from jobgen.model.loaded import Loaded, StepPrograms
    from jobgen.model.steps import JobStep

V = TypeVar("V")
Planned = tuple[Plan, frozenset[str]]
"""The plan of a step or a group, and the names of its program's own files."""
_REPLACED = frozenset(
    {"run", "nodes", "procs_per_node", "launcher", "train", "gpus_per_node", "cpus_per_task"}
    | {"ranks_per_gpu", "mem"}
)
"""Keys of a job that a step or a group has, too."""
_MERGED = frozenset({"env", "slurm"})
"""Keys whose entries stand beside those of the job."""
_OF_A_STEP = frozenset(
    {"JOBGEN_LOG_DIR", "JOBGEN_BUNDLE_DIR", "JOBGEN_STEP", "JOBGEN_WORLD_SIZE", "MASTER_PORT"}
    | {"JOBGEN_RANKS_PER_NODE", "JOBGEN_CPUS_PER_RANK", "RDZV_ID", "JOBGEN_ROUND"}
)
"""Variables of the batch shell that change from step to step."""


def split_steps(look: Inputs) -> tuple[Inputs, ...]:
    """Each step as a job of its own: the job's keys, and the step's in their place."""
    return tuple(
        give_image(
            look._replace(
                spec=split_off(look.spec, ("steps", index), step, look.spec.by_step[index]),
                step=step.name,
            ),
            step.container,
        )
        for index, step in enumerate(look.job.steps)
    )


def split_off(
    spec: Loaded[JobSpec], above: Path, part: JobStep | JobGroup, started: StepPrograms
) -> Loaded[JobSpec]:
    """The job whose only program is this step or group, which ``above`` leads to."""
    job = spec.value
    asked = {
        key: value
        for key, value in part.items()
        if key in _REPLACED and value is not None and value != ""
    }
    options = getattr(part, "slurm", {})
    value = job.replace(
        steps=(),
        groups=(),
        env={**job.env, **part.env},
        slurm={**job.slurm, **options},
        slurm_extra=(*job.slurm_extra, *getattr(part, "slurm_extra", ())),
        **asked,
    )
    return spec._replace(
        value=value,
        places=_lift(spec.places, above),
        overrides=_lift(spec.overrides, above),
        programs=started.programs,
        scripts=started.scripts,
        by_step=(),
    )


def _lift(table: Mapping[Path, V], above: Path) -> dict[Path, V]:
    """The table in which the keys of a step stand at the top of the file."""
    size = len(above)
    inner = {path[size:]: value for path, value in table.items() if path[:size] == above}
    own = {path[0] for path in inner if path}
    kept = {
        path: value
        for path, value in table.items()
        if path[:1] != above[:1] and (path[0] in _MERGED or path[0] not in own)
    }
    return kept | {path: value for path, value in inner.items() if path}


def combine_plans(look: Inputs, plans: Sequence[Planned]) -> Plan:
    """The plan of a job that runs these, each with the names of its program's own files.

    The first with most nodes stands for the job; the one with most CPUs sizes its request.
    """
    programs = tuple(
        ProgramPlan(
            step.name,
            plan,
            tuple(file for file in plan.files if file.path in own),
            look.cite_job("steps", index),
        )
        for index, (step, (plan, own)) in enumerate(zip(look.job.steps, plans, strict=True))
    )
    every = [plan for plan, _ in plans]
    lead = max(every, key=lambda plan: plan.shape.nodes)
    files = [file for plan, own in plans for file in plan.files if file.path not in own]
    return lead._replace(
        programs=programs,
        rounds=look.job.repeat,
        env=share_environment([plan.env for plan in every]),
        steps=tuple(step for step in lead.steps if step.name in ("before", "finally")),
        files=tuple(dict.fromkeys(files)),
        stop=join_stops([plan.stop for plan in every]),
        checks=tuple(dict.fromkeys(check for plan in every for check in plan.checks)),
        notes=join_notes(plan.notes for plan in every),
    )


def join_notes(notes: Iterable[Sequence[Diagnostic]]) -> tuple[Diagnostic, ...]:
    """What is noted of any step, each thing once."""
    return tuple(dict.fromkeys(note for each in notes for note in each))


def share_environment(tables: Sequence[Mapping[str, Setting]]) -> dict[str, Setting]:
    """The variables that have one value in every step, and depend on none that has several."""
    first, *others = tables
    shared = {
        name: setting
        for name, setting in first.items()
        if all(name in other and other[name].value == setting.value for other in others)
    }
    varied = {name for table in tables for name in table} - {*shared} | _OF_A_STEP
    while True:
        depends = {n for n, s in shared.items() if varied & {*list_names(s.value)}}
        if not depends:
            return shared
        varied |= depends
        shared = {name: s for name, s in shared.items() if name not in depends}


def join_stops(stops: Sequence[StopPlan | None]) -> StopPlan | None:
    """How the job stops early; with a signal to the ranks if the program of any step wants it.

    Programs without a handler do not get that signal, and look for the stop file.
    """
    known = [stop for stop in stops if stop is not None]
    return next((stop for stop in known if stop.ranks), known[0] if known else None)
