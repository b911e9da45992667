"""A plan → the values that the templates see."""

from __future__ import annotations

from jobgen.model.decision import Setting
from jobgen.model.part_plans import ContainerPlan, NotifyPlan, PreflightPlan, TrackPlan
from jobgen.model.plan import Plan
from jobgen.model.sweep import list_names
from jobgen.model.units import Walltime
from jobgen.render.component_views import list_checks, view_components
from jobgen.render.end_views import view_end
from jobgen.render.packed_script import view_packed
from jobgen.render.sbatch_lines import list_directives
from jobgen.render.setup_lines import (
    explain_setting,
    format_comment,
    format_exports,
    format_setup,
    format_site_setup,
)
from jobgen.render.step_views import (
    ExportLine,
    format_command,
    list_exports,
    list_first,
    view_code,
    view_once,
    view_prepare,
    view_steps,
)
from jobgen.shell import Raw, quote, quote_expandable


def list_values(plan: Plan, *, standalone: bool, folder: str = "") -> dict[str, object]:
    """What the templates see: text, ready to be laid out. ``folder`` of the bundle holds them."""
    return {
        "title": format_comment(_title(plan)),
        "submitted": not standalone,
        "name": plan.name,
        "directives": () if plan.shape.packing else list_directives(plan),
        "code": plan.code_folder and view_code(plan.code_folder),
        "race": bool(plan.race),
        "bundle": Raw("/".join(filter(None, ("bundle", folder)))),
        **_view_shape(plan),
        **_view_environment(plan),
        **_view_start(plan),
        **_view_caches(plan),
        **_view_container(plan),
        **_view_watchers(plan),
        **view_end(plan, standalone=standalone),
        **view_once(plan),
        **view_steps(plan),
        **view_components(plan),
    }


def _view_shape(plan: Plan) -> dict[str, object]:
    """Nodes, ranks and the elements of an array."""
    shape = plan.shape
    nodes = str(shape.nodes) if shape.min_nodes is None else f"{shape.min_nodes} to {shape.nodes}"
    return {
        "world": shape.world,
        "min_world": (shape.min_nodes or 0) * shape.ranks_per_node,
        "ranks": shape.ranks_per_node,
        "array": shape.elements is not None,
        "sweep": Raw(" ".join(list_names(plan.elements))),
        "job_id": Raw(_name_job(plan)),
        "elements": shape.elements,
        "all_cpus": shape.whole_nodes and shape.cpus_per_task is None and not plan.components,
        "nodes": Raw(nodes),
        "right_hosts": _right_hosts(plan),
    }


def _view_environment(plan: Plan) -> dict[str, object]:
    """Variables, and the setup of each scope."""
    return {
        "secrets": " ".join(plan.secrets),
        "env": list_exports(plan.env),
        "node_setup": format_setup(plan.node_setup),
        "rank_setup": format_setup(plan.rank_setup),
        "setup": [*format_site_setup(plan.site_setup, plan.precedence), *format_setup(plan.setup)],
        "prepare": plan.prepare and view_prepare(plan.prepare),
    }


def _view_start(plan: Plan) -> dict[str, object]:
    """The rendezvous, the launcher and the program; of several programs, those of the first."""
    steps = plan.programs[0].plan.steps if plan.programs else plan.steps
    launch = next(step for step in steps if step.name == "launch")
    program = next(step for step in steps if step.name == "program")
    return {
        "head": ExportLine(Raw("MASTER_ADDR"), Raw(plan.head.value), explain_setting(plan.head)),
        "before": [{"text": Raw(step.text)} for step in list_first(plan)],
        "launcher": explain_setting(Setting(plan.launcher.value, launch.why, plan.launcher.place)),
        "start": format_command(plan.start),
        "purpose": Raw(_PURPOSE[launch.scope]),
        "launch": Raw(launch.text),
        "place": format_comment(str(program.place)),
        "text": Raw(program.text),
    }


def _view_caches(plan: Plan) -> dict[str, object]:
    """Caches of compilers; the workers of a packed sweep share them."""
    caches, packing = plan.caches, plan.shape.packing
    removal = format_command(caches.remove if caches else ())
    return {
        "caches": caches
        and {"digest": Raw(caches.digest), "exports": format_exports(caches.variables)},
        "remove_caches": packing is None and removal,
        "reuse_caches": bool(packing or (plan.stop and plan.stop.requeue)),
        "packed": view_packed(plan, removal),
    }


def _view_container(plan: Plan) -> dict[str, object]:
    """How a node enters the container, and what records its image."""
    container = plan.container or ContainerPlan("pyxis", "")
    return {
        "cwd": Raw(_cwd(plan.container)),
        "setup_outside": format_site_setup(container.setup, plan.precedence),
        "may_die": bool(container.setup or container.before),
        "before_enter": Raw(container.before),
        "handed": container.runtime == "edf",
        "login": Raw(next((each.login for each in plan.containers if each.login), "")),
        "why_enter": format_comment(container.why),
        "enter": format_command(container.enter),
        "records": [format_command((each.record,)) for each in plan.containers if each.record],
    }


def _view_watchers(plan: Plan) -> dict[str, object]:
    """What runs beside the program: preflight, monitor, messages, trackers."""
    return {
        "preflight": plan.preflight and _view_preflight(plan.preflight),
        "monitor": plan.monitor
        and {
            "why": format_comment(f"every {Walltime(plan.monitor.every)} ({plan.monitor.place})"),
            "start": format_command(plan.monitor.start),
        },
        "notify": plan.notify and _view_notify(plan.notify),
        "track_id": plan.track is not None,
        "track_folders": _folders(plan.track),
    }


def _view_preflight(preflight: PreflightPlan) -> dict[str, object]:
    return {
        "expect": list_checks(preflight),
        "stops": preflight.stops,
        "excludes": preflight.excludes,
        "spare": preflight.spare,
        "full": preflight.measures is not None,
        "measures": Raw(" ".join(quote(word) for word in preflight.measures or ())),
    }


def _view_notify(notify: NotifyPlan) -> dict[str, object]:
    command = "".join(f" {quote_expandable(word)}" for word in notify.command)
    return {
        "why": explain_setting(Setting("", f"on {', '.join(notify.on)}", notify.place)),
        "on": Raw(" ".join(notify.on)),
        "url": notify.url,
        "secret": notify.secret and Raw(f"${{{notify.secret}:-}}"),
        "command": Raw(command),
        # one message for a failure, also if it is both
        "failed": Raw("fail" if "fail" in notify.on else "end"),
    }


def _title(plan: Plan) -> str:
    shape = plan.shape
    span = f"{shape.min_nodes} to {shape.nodes}" if shape.min_nodes else f"{shape.nodes}"
    node = f"{span} node{'s' if shape.nodes > 1 else ''}"
    if shape.gpus_per_node:
        node += f" x {shape.gpus_per_node} {shape.gpu or 'GPU'}"
    ranks = f"{shape.world} rank{'s' if shape.world > 1 else ''}"
    if plan.components:
        node = " + ".join(each.describe("x") for each in plan.components)
    if plan.programs:
        names = ", ".join(program.name for program in plan.programs)
        kind = "groups" if plan.has_groups else "steps"
        return f"{plan.name} on {plan.cluster}: {node}, {kind} {names}"
    return f"{plan.name} on {plan.cluster}: {node}, {ranks}, started by {plan.launcher.value}"


def _name_job(plan: Plan) -> str:
    """The job for scontrol: one element of an array has the array's own id."""
    if plan.shape.elements is None:
        return '"$SLURM_JOB_ID"'
    if plan.shape.packing is not None:
        return '"${SLURM_JOB_ID}_$SLURM_ARRAY_TASK_ID"'
    index = "index" if plan.elements else "SLURM_ARRAY_TASK_ID"
    return f'"${{SLURM_ARRAY_JOB_ID}}_${index}"'


_PURPOSE = {
    "once": "Runs on the first node: setup, then the launcher, which starts the other nodes.",
    "node": "Runs once per node: setup, then the launcher, which starts the node's ranks.",
    "rank": "Runs once per rank: setup, then the rank itself.",
}


def _right_hosts(plan: Plan) -> Raw:
    least, most = plan.shape.min_nodes, plan.shape.nodes
    if least:
        return Raw(f"((${{#HOSTS[@]}} >= {least} && ${{#HOSTS[@]}} <= {most}))")
    return Raw(f"((${{#HOSTS[@]}} == {most}))")


def _folders(track: TrackPlan | None) -> Raw:
    folders = track.folders if track else ()
    return Raw(" ".join(f'"$JOBGEN_WORK_DIR"/{quote(folder)}' for folder in folders))


def _cwd(container: ContainerPlan | None) -> str:
    inside = container.workdir if container else ""
    return quote_expandable(inside) if inside else '"$JOBGEN_WORK_DIR"'
