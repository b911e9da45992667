"""``groups:`` → a job for each, decided like any other, and one plan that runs them together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from jobgen.model.bundle import BundleFile
from jobgen.model.groups import name_variable
from jobgen.model.loaded import Path
from jobgen.model.plan import GroupRole, Plan, ProgramPlan, Readiness
from jobgen.resolve import component_jobs
from jobgen.resolve.inputs import Inputs
from jobgen.resolve.part_images import give_image
from jobgen.resolve.step_jobs import Planned, join_notes, join_stops, share_environment, split_off

if TYPE_CHECKING:
    from jobgen.model.groups import JobGroup

_KINDS = ("JOBGEN_HOSTS_", "JOBGEN_HOST_", "JOBGEN_PORT_")
"""Variables of each group that all groups have."""


def split_groups(look: Inputs) -> tuple[Inputs, ...]:
    """Each group as a job of its own, in the order in which they start."""
    groups = {group.name: group for group in look.job.groups}
    numbers = component_jobs.number_components(look)
    several = len(set(numbers.values()))
    firsts = _place_groups(look.job.groups, numbers)
    variables = tuple(f"{kind}{name_variable(name)}" for kind in _KINDS for name in groups)
    started = dict(zip(groups, look.spec.by_step, strict=True))
    looks: list[Inputs] = []
    for group in order_groups(look.job.groups):
        above: Path = ("groups", group.name)
        host = groups.get(group.on or "", group)
        home = component_jobs.find_nodes(look, host)
        number = numbers[group.name]
        beside = [each for each in groups.values() if numbers[each.name] == number]
        complete = group.replace(
            nodes=group.nodes or host.nodes,
            mem=host.mem,
            slurm=host.slurm,
            slurm_extra=host.slurm_extra,
            gpus_per_node=0 if group.on and group.gpus_per_node is None else group.gpus_per_node,
        )
        role = GroupRole(
            firsts[host.name],
            group.on or "",
            group.until or "",
            _decide_readiness(look, group),
            variables,
            number if several > 1 else None,
            min(first for name, first in firsts.items() if numbers[name] == number),
        )
        looks.append(
            give_image(
                home._replace(
                    spec=split_off(look.spec, above, complete, started[group.name]),
                    step=group.name,
                    group=role,
                    most_gpus=max(_count_gpus(home, each) for each in beside),
                    components=several,
                    all_nodes=look.job.nodes,
                ),
                group.container,
            )
        )
    return tuple(looks)


def order_groups(groups: Sequence[JobGroup]) -> list[JobGroup]:
    """The groups as they start: as written, but those with ``until: X`` before X."""
    ordered: list[JobGroup] = []

    def start(group: JobGroup) -> None:
        if group in ordered:
            return
        for other in groups:
            if other.until == group.name:
                start(other)
        ordered.append(group)

    for group in groups:
        start(group)
    return ordered


def _place_groups(groups: Sequence[JobGroup], numbers: Mapping[str, int]) -> dict[str, int]:
    """The index of the first node of each group that has nodes of its own: component by component,
    in each as they are written."""
    firsts, total = {}, 0
    for group in sorted(groups, key=lambda each: numbers[each.name]):
        if group.on is None:
            firsts[group.name] = total
            total += group.nodes or 0
    return firsts


def _count_gpus(look: Inputs, group: JobGroup) -> int:
    """GPUs that a group uses on each node."""
    asked = group.gpus_per_node
    if asked is None and group.on is None:
        asked = look.job.gpus_per_node
        asked = look.cluster.nodes.gpus_per_node if asked is None else asked
    return asked or 0


def _decide_readiness(look: Inputs, group: JobGroup) -> Readiness | None:
    ready = group.ready
    if ready is None:
        return None
    place = look.cite_job("groups", group.name, "ready")
    seconds = ready.timeout.seconds
    if ready.port is not None:
        port = "" if ready.port == "auto" else str(ready.port)
        return Readiness("port", port, seconds, place)
    if ready.file is not None:
        return Readiness("file", ready.file, seconds, place)
    return Readiness("command", ready.command or "", seconds, place)


def widen_all(look: Inputs, looks: Sequence[Inputs], plans: Sequence[Plan]) -> tuple[Inputs, ...]:
    """The job of each component: that of all nodes if they are of one kind."""
    numbers = [each.group.component if each.group else None for each in looks]
    if numbers[0] is None:
        return (_widen(look, looks, plans, look.job.nodes),)
    parts: list[Inputs] = []
    for number in sorted({number or 0 for number in numbers}):
        part = [index for index, each in enumerate(numbers) if each == number]
        nodes = sum(looks[i].job.nodes for i in part if not _shares_nodes(looks[i]))
        parts.append(_widen(look, [looks[i] for i in part], [plans[i] for i in part], nodes))
    return tuple(parts)


def _widen(look: Inputs, looks: Sequence[Inputs], plans: Sequence[Plan], nodes: int) -> Inputs:
    """The group that needs most of a node, as if it had this many nodes."""

    def measure(index: int) -> tuple[int, int, int]:
        shape = plans[index].shape
        cpus = shape.tasks_per_node * (shape.cpus_per_task or 0)
        return shape.gpus_per_node, cpus, shape.ranks_per_node

    index = max(range(len(plans)), key=measure)
    widest, plan = looks[index], plans[index]
    launcher = widest.job.launcher.replace(type=plan.launcher.value)
    value = widest.job.replace(nodes=nodes, train=None, launcher=launcher)
    places = dict(widest.spec.places)
    places["nodes",] = look.spec.find_place("nodes" if look.has_written("nodes") else "groups")
    return widest._replace(spec=widest.spec._replace(value=value, places=places))


def combine_plans(
    look: Inputs,
    looks: Sequence[Inputs],
    plans: Sequence[Planned],
    joined: Sequence[Planned],
) -> Plan:
    """The plan of a job that runs these together, each with its program's own files.

    ``joined`` are the jobs of its components, of which the first one stands for the job.
    """
    programs = tuple(
        ProgramPlan(
            each.step,
            plan,
            tuple(file for file in plan.files if file.path in own),
            look.cite_job("groups", each.step),
            each.group,
        )
        for each, (plan, own) in zip(looks, plans, strict=True)
    )
    every = [plan for plan, _ in plans]
    lasting = [plan for each, plan in zip(looks, every, strict=True) if not _ends_early(each)]
    wholes = [plan for plan, _ in joined]
    whole = wholes[0]
    return whole._replace(
        cluster=look.cluster.name,
        sources={name: digest for each in wholes for name, digest in each.sources.items()},
        preflight=next((each.preflight for each in wholes if each.preflight), None),
        shape=whole.shape._replace(nodes=look.job.nodes),
        programs=programs,
        env=share_environment([plan.env for plan in every]),
        steps=tuple(step for step in whole.steps if step.name in ("before", "finally")),
        files=_share_files((*plans, *joined)),
        stop=join_stops([plan.stop for plan in lasting]),
        configured=lasting[0].configured,
        estimate=next((plan.estimate for plan in every if plan.estimate), None),
        checks=tuple(dict.fromkeys(check for plan in every for check in plan.checks)),
        notes=join_notes(plan.notes for plan in every),
    )


def _share_files(plans: Sequence[Planned]) -> tuple[BundleFile, ...]:
    """The files that belong to no program; of a script about GPUs that for nodes with GPUs."""
    ordered = sorted(plans, key=lambda each: -each[0].shape.gpus_per_node)
    files: dict[str, BundleFile] = {}
    for plan, own in ordered:
        for file in plan.files:
            if file.path not in own:
                files.setdefault(file.path, file)
    return tuple(files.values())


def _shares_nodes(look: Inputs) -> bool:
    return look.group is not None and bool(look.group.on)


def _ends_early(look: Inputs) -> bool:
    return look.group is not None and bool(look.group.until)
