"""The plan as plain data: what ``plan.json`` holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobgen.model.components import ComponentPlan
from jobgen.model.decision import Decision
from jobgen.model.part_plans import (
    CachesPlan,
    ContainerPlan,
    MonitorPlan,
    NotifyPlan,
    PreflightPlan,
    PreparePlan,
    StopPlan,
)
from jobgen.model.plan import GroupRole, Packing, Plan, ProgramPlan, Step
from jobgen.shell import quote


def dump_plan(plan: Plan) -> dict[str, Any]:
    """The decisions as plain data: what ``plan.json`` holds and ``plan --json`` builds on."""
    shape = plan.shape
    elements = {"elements": shape.elements, "packing": shape.packing and _pack(shape.packing)}
    optional = {
        "caches": plan.caches and _caches(plan.caches),
        "notify": plan.notify and _notify(plan.notify),
        "monitor": plan.monitor and _monitor(plan.monitor),
        "programs": [_program(each) for each in plan.programs],
        "rounds": plan.rounds if plan.rounds > 1 else 0,
        "preflight": plan.preflight and _preflight(plan.preflight),
        "node_setup": [line.dump() for line in plan.node_setup],
        "rank_setup": [line.dump() for line in plan.rank_setup],
        "prepare": plan.prepare and _prepare(plan.prepare),
        "code_folder": plan.code_folder,
        "components": [_component(each) for each in plan.components],
    }
    return {
        "schema": 1,
        "name": plan.name,
        "cluster": plan.cluster,
        "scheduler": plan.scheduler,
        "shape": {
            "nodes": shape.nodes,
            "min_nodes": shape.min_nodes,
            "ranks_per_node": shape.ranks_per_node,
            "gpus_per_node": shape.gpus_per_node,
            "gpu": shape.gpu,
            "cpus_per_task": shape.cpus_per_task,
            "tasks_per_node": shape.tasks_per_node,
            "whole_nodes": shape.whole_nodes,
            "seconds": shape.seconds,
            "world": plan.world,
            "gpu_hours": round(plan.gpu_hours_per_start, 3),
            **{key: value for key, value in elements.items() if value},
        },
        "launcher": plan.launcher.dump(),
        "head": plan.head.dump(),
        "decisions": _decisions({**plan.other, **plan.configured}),
        "directives": _decisions(plan.directives),
        "extra": [setting.dump() for setting in plan.extra],
        "env": _decisions(plan.env),
        "secrets": list(plan.secrets),
        "setup": [line.dump() for line in (*plan.site_setup, *plan.setup)],
        "steps": [_step(step) for step in plan.steps],
        "start": " ".join(quote(word) for line in plan.start for word in line),
        "stop": _plain(plan.stop),
        "container": _plain(plan.container),
        **{key: value for key, value in optional.items() if value},
        "outputs": list(plan.outputs),
        "labels": dict(plan.labels),
        "notes": [note.message for note in plan.notes],
        "sources": dict(plan.sources),
    }


def _pack(packing: Packing) -> dict[str, Any]:
    return {
        "nodes": packing.nodes,
        "gpus_per_node": packing.gpus_per_node,
        "workers_per_node": packing.workers,
        "elements": packing.indexes,
    }


def _decisions(settings: Mapping[str, Decision[Any]]) -> dict[str, Any]:
    return {name: setting.dump() for name, setting in settings.items()}


def _step(step: Step) -> dict[str, Any]:
    return {"name": step.name, "scope": step.scope, "text": step.text, "place": str(step.place)}


def _program(program: ProgramPlan) -> dict[str, Any]:
    """One of several programs: what differs between them."""
    plan, shape = program.plan, program.plan.shape
    return {
        "name": program.name,
        "place": str(program.place),
        "nodes": shape.nodes,
        "ranks_per_node": shape.ranks_per_node,
        "world": shape.world,
        "launcher": plan.launcher.dump(),
        "decisions": _decisions({**plan.other, **plan.configured}),
        "env": _decisions(plan.env),
        "steps": [_step(s) for s in plan.steps if s.name not in ("before", "finally")],
        "start": " ".join(quote(word) for line in plan.start for word in line),
        **({"group": _role(program.group)} if program.group else {}),
    }


def _prepare(prepare: PreparePlan) -> dict[str, Any]:
    return {
        "start": " ".join(quote(word) for line in prepare.start for word in line),
        "staged": [each._asdict() for each in prepare.staged],
        "outside": [line.dump() for line in prepare.outside],
        "place": str(prepare.place),
    }


def _role(role: GroupRole) -> dict[str, Any]:
    """Where a group runs, with which one it ends, and when the next one may start."""
    ready = role.ready and {**role.ready._asdict(), "place": str(role.ready.place)}
    component = {} if role.component is None else {"component": role.component}
    data = {"first_node": role.first, "on": role.on, "until": role.until, "ready": ready}
    return {**component, **data}


def _component(component: ComponentPlan) -> dict[str, Any]:
    """What one component of a heterogeneous job requests."""
    return {
        "first_node": component.first,
        "nodes": component.shape.nodes,
        "gpus_per_node": component.shape.gpus_per_node,
        "gpu": component.shape.gpu,
        "directives": _decisions(component.directives),
        "extra": [setting.dump() for setting in component.extra],
        "preflight": component.preflight and _preflight(component.preflight),
    }


def _preflight(preflight: PreflightPlan) -> dict[str, Any]:
    expect = [setting.dump() for setting in preflight.expect]
    return {**preflight._asdict(), "expect": expect, "place": str(preflight.place)}


def _caches(caches: CachesPlan) -> dict[str, Any]:
    return {"digest": caches.digest, "variables": dict(caches.variables)}


def _notify(notify: NotifyPlan) -> dict[str, Any]:
    """Without the URL, which is in job.sbatch alone."""
    webhook = f"${notify.secret}" if notify.secret else bool(notify.url)
    command = list(notify.command)
    place = str(notify.place)
    return {"on": list(notify.on), "webhook": webhook, "command": command, "place": place}


def _monitor(monitor: MonitorPlan) -> dict[str, Any]:
    start = " ".join(quote(word) for line in monitor.start for word in line)
    return {"every": monitor.every, "start": start, "place": str(monitor.place)}


def _plain(value: ContainerPlan | StopPlan | None) -> dict[str, Any] | None:
    if value is None:
        return None
    data = value._asdict()
    if isinstance(value, StopPlan):
        del data["step"]
        if not value.chain:
            del data["chain"]
    else:
        data["place"] = str(value.place)
        data["mounts"] = [mount._asdict() for mount in data["mounts"]]
        data["setup"] = [line.dump() for line in data["setup"]]
        if data.pop("login"):
            data["login"] = True
    return data
