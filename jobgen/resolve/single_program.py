"""A job with one program: its shape, its strategy, then the plan, or what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobgen.errors import Diagnostic, Invalid
from jobgen.launch import LaunchRequest, launch
from jobgen.model.decision import PlanCheck, Setting
from jobgen.model.launchers import get_facts
from jobgen.model.plan import Part, Plan, Shape
from jobgen.named_tuple import NamedTuple
from jobgen.resolve import (
    checks,
    container_checks,
    container_image,
    directives,
    launcher_limits,
    planner_checks,
    preparing,
    profiling_steps,
    program,
    saving,
    site_runtimes,
    start,
    training,
)
from jobgen.resolve.assembly import Decided, assemble
from jobgen.resolve.inputs import Inputs
from jobgen.resolve.planner_request import PlannerRequest
from jobgen.resolve.shape import Sized, decide_shape

if TYPE_CHECKING:
    from collections.abc import Sequence


class Examined(NamedTuple):
    """Everything that is decided, or wrong, about a job on a cluster."""

    plan: Plan | None
    """None where something is an error."""
    problems: tuple[Diagnostic, ...]
    """Errors of the two files together; with a plan, its notes."""
    checks: tuple[PlanCheck, ...]
    """What was checked beside them, good news too."""
    planner_request: PlannerRequest | None = None
    """For whoever asks the planner for more than the plan's estimate; None without ``train``."""
    program_files: frozenset[str] = frozenset()
    """Names of the files that belong to the program, not to the job."""


def examine_program(look: Inputs) -> Examined:
    """The plan and its checks of a job with one program."""
    sized = Sized()
    runs = program.read(look.job.run, get_facts(look.job.launcher.type or "").rank_command)
    size, launcher = decide_shape(look, runs, sized)
    warning = directives.plan_stop(look, sized)
    wrong = [
        *sized.problems,
        *container_checks.check_container(look, launcher.value),
        *launcher_limits.check_launcher(look, launcher.value, size),
        *preparing.check_scopes(look),
        *launcher_limits.check_recipe(look, launcher.value),
    ]
    blocked = bool(wrong)
    trained = training.Trained()
    try:
        trained = training.plan_training(look, size, launcher.value, runs, sized)
    except Invalid as error:
        wrong += error.problems
    saves = saving.plan_saving(look, size, saving.SavingInputs(warning, runs, trained.saves), sized)
    traced = profiling_steps.plan_profile(look, size, saves.runs, trained, sized)
    parts = (*trained.parts, saves.part, traced.part)
    checked = (
        *checks.run_checks(look, size, launcher.value),
        *(c for part in parts for c in part.checks),
    )
    if not blocked:
        try:
            starts = launch(launcher.value, _build_request(look, size, launcher, trained.launcher))
            decided = Decided(
                size, launcher, saves.stop, traced.runs, trained, starts, parts, checked
            )
            plan = assemble(look, decided, sized)
        except Invalid as error:
            wrong += error.problems
    if not any(problem.severity == "error" for problem in wrong):
        names = _name_program_files(plan, (*parts, starts.part))
        return Examined(plan, plan.notes, checked, trained.planner_request, names)
    if _SIZES & {problem.code for problem in wrong}:
        checked = tuple(check for check in checked if check.code != planner_checks.UNFIT)
    return Examined(None, tuple(dict.fromkeys(wrong)), checked)


_SIZES = {"J201", "J202", "J203", "J204"}
"""Codes of a shape that cannot be: in another one, other memory is needed."""


def _build_request(
    look: Inputs, size: Shape, launcher: Setting, config: bytes | None
) -> LaunchRequest:
    """What the launcher starts; ``config`` is what the strategy makes for it."""
    asked = look.job.launcher
    if config is None and asked.config:
        config = look.facts.texts.get(asked.config)
    return LaunchRequest(
        launcher=asked,
        shape=size,
        address=start.build_address(look),
        config=config,
        place=launcher.place,
        hostfile=f"hostfile.{look.step}" if look.group else "hostfile",
    )


def _name_program_files(plan: Plan, parts: Sequence[Part]) -> frozenset[str]:
    """The files that each of several programs has in its own folder."""
    names = {file.path for part in parts for file in part.files} | {site_runtimes.EDF}
    names -= {saving.SENDER}
    if plan.container is not None and not plan.container.record:
        names.add(container_image.IMAGE_DIGEST)
    return frozenset(names)
