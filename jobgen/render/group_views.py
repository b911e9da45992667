"""What the templates see of ``groups``: who is where, who ends with whom, when a group is ready."""

from __future__ import annotations

from jobgen.model.groups import name_variable
from jobgen.model.plan import GroupRole, Plan, ProgramPlan, Readiness
from jobgen.render.component_views import name_cpus
from jobgen.render.setup_lines import format_comment, format_setup, format_site_setup
from jobgen.shell import Raw, quote, quote_expandable

_SHOWN = 60
"""Characters of a command in messages."""
_PORT = "20000 + (SLURM_JOB_ID + 1009 * JOBGEN_RESTART + {}) % 10000"


def view_groups(plan: Plan) -> dict[str, object]:
    """What all groups share; empty values for a job without groups."""
    roles = [(program, program.group) for program in plan.programs if program.group]
    ends_with = [f"[{program.name}]={role.until}" for program, role in roles if role.until]
    return {
        "groups": bool(roles),
        "lasting": Raw(" ".join(program.name for program, role in roles if not role.until)),
        "ends_with": Raw(" ".join(ends_with)),
        "group_variables": [
            line
            for index, (program, role) in enumerate(roles)
            for line in _export_variables(plan, program, role, index)
        ],
    }


def _export_variables(plan: Plan, program: ProgramPlan, role: GroupRole, index: int) -> list[Raw]:
    """The hosts of a group, and a port that no other group has."""
    name, nodes = name_variable(program.name), program.plan.shape.nodes
    hosts, first = f"${{HOSTS[*]:{role.first}:{nodes}}}", f"${{HOSTS[{role.first}]}}"
    if plan.scheduler == "local":  # all simulated nodes are this machine
        first = plan.head.value
        hosts = " ".join([first] * nodes)
    port = _PORT.format(101 * index + 50)
    return [
        Raw(f'export JOBGEN_HOSTS_{name}="{hosts}" JOBGEN_HOST_{name}={first}'),
        Raw(f"export JOBGEN_PORT_{name}=$(({port}))"),
    ]


def view_group(program: ProgramPlan) -> dict[str, object]:
    """What one group has beside the values of a step."""
    role = program.group
    if role is None:
        return {}
    return {
        "first": role.first,
        "component_cpus": role.component is not None and name_cpus(role.component),
        "head": Raw(program.plan.head.value),
        "ends_early": bool(role.until),
        "remember": role.ready and _look_before(program.name, role.ready),
        "ready": role.ready and _view_readiness(program.name, role.ready),
    }


def _view_readiness(group: str, ready: Readiness) -> dict[str, object]:
    """The bash that finds out whether a group is ready, and what it looks for."""
    if ready.kind == "port":
        port = _name_port(group, ready)
        what, check = f"port {port}", _try_port(group, port)
    elif ready.kind == "file":
        what, file = f"file {ready.value}", _name_file(ready)
        check = f'[[ -e {file} && $(stat -c %i.%Z {file}) != "$file_before" ]]'
    else:
        first, _, _ = ready.value.strip().partition("\n")
        what = f"command {first[:_SHOWN]} (see ready.log)"
        script = f'"$JOBGEN_BUNDLE_DIR/{group}/ready.sh"'
        check = f'timeout 60 bash {script} >>"$JOBGEN_LOG_DIR/ready.log" 2>&1 </dev/null'
    expands = ready.kind != "command" and "$" in what
    shown = quote_expandable(what) if expands else quote(what)
    return {
        "check": Raw(check),
        "seconds": ready.seconds,
        "what": Raw(shown),
        "place": format_comment(str(ready.place)),
    }


def _name_port(group: str, ready: Readiness) -> str:
    return ready.value or f"$JOBGEN_PORT_{name_variable(group)}"


def _try_port(group: str, port: str) -> str:
    return f'timeout 5 bash -c ": </dev/tcp/$JOBGEN_HOST_{name_variable(group)}/{port}"'


def _name_file(ready: Readiness) -> str:
    file = quote_expandable(ready.value)
    return file if ready.value.startswith(("/", "$")) else f'"$JOBGEN_WORK_DIR"/{file}'


def _look_before(group: str, ready: Readiness) -> Raw | None:
    """What tells the group's own file or port from one that was there before it started."""
    if ready.kind == "file":
        return Raw(f"file_before=$(stat -c %i.%Z {_name_file(ready)} 2>/dev/null)")
    if ready.kind != "port":
        return None
    port, name = _name_port(group, ready), name_variable(group)
    text = f"group {group} does not start: port {port} on $JOBGEN_HOST_{name} is already in use"
    advice = "" if not ready.value else f"; let its program use \\$JOBGEN_PORT_{name}"
    return Raw(f'! {_try_port(group, port)} 2>/dev/null || fail_job 96 "{text}{advice}"')


def view_ready_command(plan: Plan, program: ProgramPlan) -> dict[str, object] | None:
    """What ``ready.sh`` of a group runs; None if it is ready by something else."""
    ready = program.group.ready if program.group else None
    if ready is None or ready.kind != "command":
        return None
    site = plan.container.setup if plan.container else plan.site_setup
    setup = [*format_site_setup(site, plan.precedence)]
    return {
        "setup_once": setup if plan.container else [*setup, *format_setup(plan.setup)],
        "ready_once": {
            "commands": Raw(ready.value),
            "place": format_comment(str(ready.place)),
            "failed": Raw('"not ready: $BASH_COMMAND"'),
        },
    }
