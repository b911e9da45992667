"""``groups:`` → a job for each, decided like any other, and one plan that runs them together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jobgen.model.groups import name_variable
from jobgen.model.loaded import Path
from jobgen.model.plan import GroupRole, Plan, ProgramPlan, Readiness
from jobgen.resolve.inputs import Inputs
from jobgen.resolve.step_jobs import join_notes, join_stops, share_environment, split_off

if TYPE_CHECKING:
    from jobgen.model.groups import JobGroup

_KINDS = ("JOBGEN_HOSTS_", "JOBGEN_HOST_", "JOBGEN_PORT_")
"""Variables of each group that all groups have."""


def split_groups(look: Inputs) -> tuple[Inputs, ...]:
    """Each group as a job of its own, in the order in which they start."""
    groups = {group.name: group for group in look.job.groups}
    firsts = _place_groups(look.job.groups)
    variables = tuple(f"{kind}{name_variable(name)}" for kind in _KINDS for name in groups)
    most = max(_count_gpus(look, group) for group in groups.values())
    started = dict(zip(groups, look.spec.by_step, strict=True))
    looks: list[Inputs] = []
    for group in order_groups(look.job.groups):
        above: Path = ("groups", group.name)
        host = groups.get(group.on or "", group)
        complete = group.replace(
            nodes=group.nodes or host.nodes,
            gpus_per_node=0 if group.on and group.gpus_per_node is None else group.gpus_per_node,
        )
        role = GroupRole(
            firsts[host.name],
            group.on or "",
            group.until or "",
            _decide_readiness(look, group),
            variables,
        )
        spec = split_off(look.spec, above, complete, started[group.name])
        each = look._replace(spec=spec, step=group.name, group=role, most_gpus=most)
        looks.append(each._replace(all_nodes=look.job.nodes))
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


def _place_groups(groups: Sequence[JobGroup]) -> dict[str, int]:
    """The index of the first node of each group that has nodes of its own, as they are written."""
    firsts, total = {}, 0
    for group in groups:
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


def widen(look: Inputs, looks: Sequence[Inputs], plans: Sequence[Plan]) -> Inputs:
    """The group that needs most of a node, as if it had the nodes of the whole job."""

    def measure(index: int) -> tuple[int, int, int]:
        shape = plans[index].shape
        cpus = shape.tasks_per_node * (shape.cpus_per_task or 0)
        return shape.gpus_per_node, cpus, shape.ranks_per_node

    index = max(range(len(plans)), key=measure)
    widest, plan = looks[index], plans[index]
    launcher = widest.job.launcher.replace(type=plan.launcher.value)
    value = widest.job.replace(nodes=look.job.nodes, train=None, launcher=launcher)
    places = dict(widest.spec.places)
    places["nodes",] = look.spec.find_place("nodes" if look.has_written("nodes") else "groups")
    return widest._replace(spec=widest.spec._replace(value=value, places=places))


def combine_plans(
    look: Inputs,
    looks: Sequence[Inputs],
    plans: Sequence[tuple[Plan, frozenset[str]]],
    whole: Plan,
) -> Plan:
    """The plan of a job that runs these together, each with its program's own files."""
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
    owned = frozenset[str]().union(*(own for _, own in plans))
    files = [file for plan in (*every, whole) for file in plan.files if file.path not in owned]
    return whole._replace(
        programs=programs,
        env=share_environment([plan.env for plan in every]),
        steps=tuple(step for step in whole.steps if step.name in ("before", "finally")),
        files=tuple(dict.fromkeys(files)),
        stop=join_stops([plan.stop for plan in lasting]),
        configured=lasting[0].configured,
        estimate=next((plan.estimate for plan in every if plan.estimate), None),
        checks=tuple(dict.fromkeys(check for plan in every for check in plan.checks)),
        notes=join_notes(plan.notes for plan in every),
    )


def _ends_early(look: Inputs) -> bool:
    return look.group is not None and bool(look.group.until)
