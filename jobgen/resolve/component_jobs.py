"""Groups that need different nodes → the components of one heterogeneous job of Slurm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from jobgen.errors import Diagnostic
from jobgen.model.components import CARRIED, OPTIONS, SIZES, ComponentPlan
from jobgen.model.plan import Plan
from jobgen.resolve.inputs import Inputs
from jobgen.resolve.monitor_settings import share_gpus

if TYPE_CHECKING:
    from jobgen.model.groups import JobGroup

CODE = "J299"


def number_components(look: Inputs) -> dict[str, int]:
    """The component of each group: one for all that request the same nodes, in their order."""
    groups = {group.name: group for group in look.job.groups}
    kinds: dict[object, int] = {}
    numbers: dict[str, int] = {}
    for name, group in groups.items():
        kind = _describe_nodes(look, groups.get(group.on or "", group))
        numbers[name] = kinds.setdefault(kind, len(kinds))
    return numbers


def find_nodes(look: Inputs, group: JobGroup) -> Inputs:
    """The job with the profile of the nodes that this group runs on."""
    profile = look.facts.profiles.get(group.cluster or "")
    return look if profile is None or look.local else look._replace(profile=profile)


def _describe_nodes(look: Inputs, group: JobGroup) -> object:
    """What makes the nodes of a group differ; nothing where all are this machine."""
    if look.local:
        return None
    options = frozenset({**look.job.slurm, **group.slurm}.items())
    mem = group.mem or look.job.mem
    return options, group.slurm_extra, mem and mem.format_slurm(), group.cluster


def check_components(look: Inputs, looks: Sequence[Inputs]) -> Iterator[Diagnostic]:
    """What Slurm, or a run of several jobs, does not have beside several kinds of nodes."""
    for each in looks:
        if _describe_site(each) != _describe_site(look):
            ours, theirs = look.cluster.name, each.cluster.name
            message = f"{theirs} is not a profile of the same cluster as {ours}: "
            message += "its scheduler, ssh or paths.root differ"
            hint = f"write a profile with extends: {ours} for the other nodes of that cluster"
            path = ("groups", each.step, "cluster")
            yield look.diagnose_job(CODE, message, *path, hint=hint)
    if looks[0].components == 1:
        return
    hint = "let all groups have the same nodes, or remove {}"
    for key in ("array", "sweep", "race"):
        if look.has_written(key):
            message = f"{key} and groups with different nodes exclude each other: Slurm takes "
            message += "the groups as a heterogeneous job, which has no array and one queue each"
            yield look.diagnose_job(CODE, message, key, hint=hint.format(key))


def _describe_site(look: Inputs) -> object:
    """What all nodes of a run share: its login and its directory."""
    return look.cluster.scheduler, look.cluster.ssh, look.cluster.paths.root


def check_carried(
    look: Inputs, parts: Sequence[Inputs], plans: Sequence[Plan]
) -> Iterator[Diagnostic]:
    """Options that sbatch would also give to a later component, which does not have them."""
    carried: dict[str, Inputs] = {}
    for part, plan in zip(parts, plans, strict=True):
        for name in sorted(carried.keys() - plan.directives.keys()):
            key = ("mem",) if name == "mem" else ("slurm", name)
            other = carried[name].step
            message = f"{'.'.join(key)} is set for group {other} but not for {part.step}, to which "
            message += "sbatch would give it, too"
            if name == "mem" and not carried[name].job.mem:
                message = f"group {other} takes all memory of its nodes, and sbatch would give "
                message += f"{part.step} the same"
            hint = f"set {'.'.join(key)} in {part.step}, or write {part.step} before {other}"
            path = ("groups", part.step)
            yield look.diagnose_job(CODE, message, *path, hint=hint)
        carried |= dict.fromkeys(plan.directives.keys() & CARRIED, part)


def plan_components(parts: Sequence[Inputs], plans: Sequence[Plan]) -> tuple[ComponentPlan, ...]:
    """The components in their order; none if all nodes are of one kind."""
    if len(plans) == 1:
        return ()
    planned: list[ComponentPlan] = []
    first = 0
    for part, plan in zip(parts, plans, strict=True):
        own = OPTIONS | SIZES if planned else plan.directives.keys()
        planned.append(
            ComponentPlan(
                shape=plan.shape,
                first=first,
                directives={n: s for n, s in plan.directives.items() if n in own},
                extra=plan.extra,
                head=plan.head,
                gpus=share_gpus(part, plan.shape),
                preflight=plan.preflight,
            )
        )
        first += plan.shape.nodes
    return tuple(planned)
