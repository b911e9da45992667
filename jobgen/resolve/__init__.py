"""(job, cluster, facts) → Plan: every decision, each with its why and its place.

Nothing is asked and nothing is read here. A job with one program is decided in ``single_program``;
one with several programs, or shapes, is put together from such jobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobgen.errors import Invalid
from jobgen.model.facts import Facts
from jobgen.model.plan import Plan, Shape
from jobgen.resolve import component_jobs, group_jobs, part_images, racing, step_jobs
from jobgen.resolve.inputs import Inputs
from jobgen.resolve.single_program import Examined, examine_program
from jobgen.resolve.step_jobs import Planned

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jobgen.model.cluster import ClusterProfile
    from jobgen.model.job import JobSpec
    from jobgen.model.loaded import Loaded


def resolve(job: Loaded[JobSpec], cluster: Loaded[ClusterProfile], facts: Facts) -> Plan:
    """The plan. Raises Invalid with every problem at once."""
    examined = examine(job, cluster, facts)
    if examined.plan is None:
        raise Invalid(*examined.problems)
    return examined.plan


def examine(job: Loaded[JobSpec], cluster: Loaded[ClusterProfile], facts: Facts) -> Examined:
    """The plan and its checks; with errors, all problems and checks that do not follow from them.

    Never raises Invalid.
    """
    look = Inputs(job, cluster, facts)
    shapes = racing.split_shapes(look)
    return _examine_shapes(look, shapes) if shapes else _examine_parts(look)


def _examine_shapes(look: Inputs, shapes: Mapping[int, Inputs]) -> Examined:
    """Each shape of a race as a job of its own."""
    every = {number: _examine_parts(each) for number, each in shapes.items()}
    plans = {number: each.plan for number, each in every.items() if each.plan is not None}
    first = every[0]
    if len(plans) < len(every):
        wrong = {n: () if each.plan else each.problems for n, each in every.items()}
        return first._replace(plan=None, problems=racing.name_entries(look, wrong))
    plan = racing.combine_shapes(look, plans)
    return first._replace(plan=plan, problems=plan.notes, checks=plan.checks)


def _examine_parts(look: Inputs) -> Examined:
    """A job with one program; or each step, or group, as a job of its own, then the whole job."""
    if look.job.groups:
        looks, combine = group_jobs.split_groups(look), _combine_groups
    elif look.job.steps:
        looks, combine = step_jobs.split_steps(look), _combine_steps
    else:
        return examine_program(look)
    every = [examine_program(each) for each in looks]
    checked = tuple(dict.fromkeys(check for each in every for check in each.checks))
    wrong = tuple(part_images.check_images(look, looks))
    if wrong or any(each.plan is None for each in every):
        return Examined(None, step_jobs.join_notes([wrong, *(e.problems for e in every)]), checked)
    try:
        plan = combine(look, looks, _list_planned(every))
    except Invalid as error:
        return Examined(None, error.problems, checked)
    trained = next((each.planner_request for each in every if each.planner_request), None)
    return Examined(plan, plan.notes, checked, trained)


def _list_planned(every: Sequence[Examined]) -> list[Planned]:
    """Each plan, with the names of its program's own files."""
    return [(each.plan, each.program_files) for each in every if each.plan is not None]


def _combine_groups(look: Inputs, looks: Sequence[Inputs], plans: Sequence[Planned]) -> Plan:
    """The job with the nodes of all groups. Raises Invalid."""
    parts = group_jobs.widen_all(look, looks, [plan for plan, _ in plans])
    joined = [examine_program(each) for each in parts]
    planned = _list_planned(joined)
    wholes = [plan for plan, _ in planned]
    wrong = step_jobs.join_notes([each.problems for each in joined if each.plan is None])
    wrong += tuple(component_jobs.check_components(look, looks))
    if len(wholes) == len(parts):
        wrong += tuple(component_jobs.check_carried(look, parts, wholes))
    if wrong:
        raise Invalid(*wrong)
    plan = group_jobs.combine_plans(look, looks, plans, planned)
    return plan._replace(components=component_jobs.plan_components(parts, wholes))


def _combine_steps(look: Inputs, looks: Sequence[Inputs], plans: Sequence[Planned]) -> Plan:
    """The job that runs all steps, one after another. Raises Invalid."""
    plan = step_jobs.combine_plans(look, plans)
    widest = max(range(len(looks)), key=lambda index: _count_cpus(plans[index][0].shape))
    value = looks[widest].job.replace(nodes=look.job.nodes)
    whole = examine_program(looks[widest]._replace(spec=looks[widest].spec._replace(value=value)))
    if whole.plan is None:
        raise Invalid(*whole.problems)
    return plan._replace(directives=whole.plan.directives, race=whole.plan.race)


def _count_cpus(size: Shape) -> int:
    """The CPUs of a node that a step asks for; none where it takes whole nodes."""
    return size.tasks_per_node * (size.cpus_per_task or 0)
