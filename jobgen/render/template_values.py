"""A plan → the values that the templates see, and the blocks of rank.sh that the job needs."""

from __future__ import annotations

from jobgen.model.decision import Setting
from jobgen.model.launchers import LAUNCHERS
from jobgen.model.part_plans import ContainerPlan, NotifyPlan, StopPlan, TrackPlan
from jobgen.model.plan import Plan
from jobgen.model.sweep import list_names
from jobgen.model.units import Walltime
from jobgen.render.component_views import list_checks, view_components
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
    list_once,
    view_code,
    view_once,
    view_prepare,
    view_steps,
)
from jobgen.shell import Raw, quote, quote_expandable


def list_values(plan: Plan, *, standalone: bool, folder: str = "") -> dict[str, object]:
    """What the templates see: text, ready to be laid out. ``folder`` of the bundle holds them."""
    shape, stop = plan.shape, plan.stop
    marked = not standalone or _is_guarded(plan)
    marked = marked or bool(plan.secrets or plan.notify or shape.packing)
    steps = plan.programs[0].plan.steps if plan.programs else plan.steps
    launch = next(step for step in steps if step.name == "launch")
    program = next(step for step in steps if step.name == "program")
    once = {step.name: step for step in list_once(plan)}
    before = list_first(plan)
    container = plan.container or ContainerPlan("pyxis", "")
    elastic = shape.min_nodes is not None
    nodes = f"{shape.min_nodes} to {shape.nodes}" if elastic else str(shape.nodes)
    explains = plan.preflight or stop or once or plan.code_folder or plan.prepare
    why = ' ${why:+"why=$why"}' if explains else ""
    arrays = plan.elements and not shape.packing
    number = 3 if arrays else 2
    numbered = f'"state/0/claim${{{number}:+.${number}}}"'
    claim = Raw(numbered if arrays or (stop and stop.chain) else "state/0/claim")
    remove_caches = format_command(plan.caches.remove if plan.caches else ())
    chain = stop.chain if stop and not standalone else 0
    resumes = bool(stop and (stop.requeue or chain))
    unless_over = " && -z $grace_over" if resumes else ""
    return {
        "title": format_comment(_title(plan)),
        "submitted": not standalone,
        "exit_marker": marked,
        "has_end": marked or bool(once or (plan.caches and plan.caches.remove)),
        "name": plan.name,
        "directives": () if shape.packing else list_directives(plan),
        "packed": view_packed(plan, remove_caches),
        "claim": claim,
        "code": plan.code_folder and view_code(plan.code_folder),
        "race": bool(plan.race),
        "bundle": Raw("/".join(filter(None, ("bundle", folder)))),
        "world": shape.world,
        "silence": _may_fall_silent(plan) and not standalone,
        "min_world": (shape.min_nodes or 0) * shape.ranks_per_node,
        "ranks": shape.ranks_per_node,
        "array": shape.elements is not None,
        "sweep": Raw(" ".join(list_names(plan.elements))),
        "job_id": Raw(_name_job(plan)),
        "elements": shape.elements,
        "all_cpus": shape.whole_nodes and shape.cpus_per_task is None and not plan.components,
        "nodes": Raw(nodes),
        "right_hosts": _right_hosts(plan),
        "secrets": " ".join(plan.secrets),
        "env": list_exports(plan.env),
        "head": ExportLine(Raw("MASTER_ADDR"), Raw(plan.head.value), explain_setting(plan.head)),
        "before": [{"text": Raw(step.text)} for step in before],
        "launcher": explain_setting(Setting(plan.launcher.value, launch.why, plan.launcher.place)),
        "start": format_command(plan.start),
        "requeue": bool(stop and stop.requeue),
        "chain": chain,
        "resumes": resumes,
        "stop": stop
        and {
            "signal": Raw(stop.signal),
            "ranks": Raw(f"SIG{stop.ranks}"),
            "step": Raw(format_command(stop.step).replace("\n", "\n        ")),
            "over": Raw(_over(stop, several=bool(plan.programs), resumes=resumes)),
            "grace": stop.grace,
            "max_requeues": stop.max_requeues,
        },
        "why": Raw(why),
        "preflight": plan.preflight
        and {
            "expect": list_checks(plan.preflight),
            "stops": plan.preflight.stops,
            "excludes": plan.preflight.excludes,
            "spare": plan.preflight.spare,
            "full": plan.preflight.measures is not None,
            "measures": Raw(" ".join(quote(word) for word in plan.preflight.measures or ())),
        },
        "caches": plan.caches
        and {
            "digest": Raw(plan.caches.digest),
            "exports": format_exports(plan.caches.variables),
        },
        # the workers of a packed sweep share them
        "remove_caches": shape.packing is None and remove_caches,
        "reuse_caches": bool(shape.packing or (stop and stop.requeue)),
        "notify": plan.notify and _view_notify(plan.notify),
        "track_id": plan.track is not None,
        "track_folders": _folders(plan.track),
        "monitor": plan.monitor
        and {
            "why": format_comment(f"every {Walltime(plan.monitor.every)} ({plan.monitor.place})"),
            "start": format_command(plan.monitor.start),
        },
        "unless_over": Raw(unless_over),
        "purpose": Raw(_PURPOSE[launch.scope]),
        "cwd": Raw(_cwd(plan.container)),
        **view_once(plan, once),
        **view_steps(plan),
        **view_components(plan),
        "node_setup": format_setup(plan.node_setup),
        "rank_setup": format_setup(plan.rank_setup),
        "prepare": plan.prepare and view_prepare(plan.prepare),
        "setup": [*format_site_setup(plan.site_setup, plan.precedence), *format_setup(plan.setup)],
        "setup_outside": format_site_setup(container.setup, plan.precedence),
        "launch": Raw(launch.text),
        "place": format_comment(str(program.place)),
        "text": Raw(program.text),
        "may_die": bool(container.setup or container.before),
        "before_enter": Raw(container.before),
        "handed": container.runtime == "edf",
        "login": Raw(next((each.login for each in plan.containers if each.login), "")),
        "why_enter": format_comment(container.why),
        "enter": format_command(container.enter),
        "records": [format_command((each.record,)) for each in plan.containers if each.record],
    }


def list_blocks(plan: Plan, *, of_part: bool = False, ends_early: bool = False) -> frozenset[str]:
    """The blocks of rank.sh that this job needs, or its part: a step, or a group."""
    inside, blocks = plan.container is not None, LAUNCHERS[plan.launcher.value].blocks
    launch = next(step for step in plan.steps if step.name == "launch")
    guard = inside or ends_early or "guard" in blocks
    bind = "bind" in plan.other and plan.other["bind"].value == "auto"
    search = bind and "JOBGEN_GPU_CPUS" not in plan.env
    sharing = plan.shape.ranks_per_gpu > 1
    top = LAUNCHERS[plan.launcher.value].task != "agent"
    needs = {
        "steps": of_part,
        "alone": not of_part,
        "until": ends_early,
        "secrets": bool(plan.secrets),
        "pdsh": "deepspeed" in blocks and launch.scope == "once",
        "hub": "JOBGEN_HUB_MODEL" in plan.env,
        "container": inside,
        "packed": plan.shape.packing is not None,
        "top": top,
        "forwards": inside or top,
        "packed_forwards": (inside or top) and plan.shape.packing is not None,
        "guard": guard,
        "unguarded": not guard,
        "bind": bind,
        "separate": search and not sharing,
        "neighbors": search and sharing,
        "sharing": sharing,
        "sharing_nvidia": sharing and not plan.shape.amd,
        "sharing_amd": sharing and plan.shape.amd,
        "known": bind and not search,
        "search": search,
        "nvidia": search and not plan.shape.amd,
        "amd": search and plan.shape.amd,
    }
    return frozenset([*blocks, *(name for name, needed in needs.items() if needed)])


def _list_plans(plan: Plan) -> list[Plan]:
    """The plan of each program."""
    return [program.plan for program in plan.programs] or [plan]


def _may_fall_silent(plan: Plan) -> bool:
    """Whether ranks may wait for one that has left; a group may end long before the others."""
    return not plan.has_groups and any(each.shape.world > 1 for each in _list_plans(plan))


def _is_guarded(plan: Plan) -> bool:
    """Whether ranks look for the end of the job themselves."""
    return any("guard" in list_blocks(each) for each in _list_plans(plan))


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


def _over(stop: StopPlan, *, several: bool, resumes: bool) -> str:
    """The condition for an early end: it has saved, has ended well by a signal, or is too slow."""
    reasons = "-e $JOBGEN_STOPPED_FILE"
    if several:
        reasons += " || -n $unfinished"
    if resumes:
        reasons += " || -n $grace_over"
    if stop.step:
        reasons += " ||\n    $rc == 0 && -e $JOBGEN_STATE_DIR/signaled.$JOBGEN_RESTART"
    return f"({reasons})" if "||" in reasons else reasons


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
