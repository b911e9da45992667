"""What a launcher cannot do: settings of another one, and programs of ``run:``."""

from __future__ import annotations

from jobgen.errors import Problem
from jobgen.launch.nesting import Ranks, check_programs
from jobgen.model.launchers import LAUNCHERS, find_launchers, find_takers, join_or
from jobgen.model.plan import Shape
from jobgen.model.settings import Launcher
from jobgen.resolve.look import Look


def check_settings(look: Look, launcher: str) -> list[Problem]:
    """Settings that this launcher does not take or cannot follow here."""
    problems = []
    for key, form in Launcher.keys.items():
        takers = find_takers(key)
        if getattr(look.job.launcher, key) == form.default or launcher in takers or not takers:
            continue
        message = f"launcher.{key} means nothing to {launcher}"
        hint = f"it is a setting of {' and '.join(takers)}"
        problems.append(look.wrong_job("J215", message, "launcher", key, hint=hint))
    return [*problems, *_check_elastic(look, launcher), *_check_ssh(look, launcher)]


def check_nesting(look: Look, launcher: str, size: Shape) -> list[Problem]:
    """Programs of ``run:`` that it cannot start, as far as the job alone does not show it."""
    ranks = Ranks(launcher, size.nodes, size.world, look.job.name)
    problems = check_programs(look.spec.programs, ranks)
    return [problem for problem in problems if problem.severity == "error"]


def _check_elastic(look: Look, launcher: str) -> list[Problem]:
    if look.job.min_nodes is None or LAUNCHERS[launcher].elastic:
        return []
    message = f"nodes: {look.job.min_nodes}:{look.job.nodes}: {launcher} cannot go on when a node "
    message += "is lost"
    elastic = join_or(find_launchers(lambda row: row.elastic))
    hint = f"write launcher: {elastic}, or one number of nodes"
    return [look.wrong_job("J217", message, "nodes", hint=hint)]


def _check_ssh(look: Look, launcher: str) -> list[Problem]:
    if "ssh" not in LAUNCHERS[launcher].settings or look.job.launcher.ssh != "pdsh":
        return []
    problems = []
    if look.local:
        message = "launcher.ssh: pdsh, and the nodes of the local cluster are no ssh hosts"
        hint = f"leave it out: srun then starts {launcher} on every node"
        problems.append(look.wrong_job("J215", message, "launcher", "ssh", hint=hint))
    for name, value in look.job.env.items():
        if "\n" in value:
            message = f"{name} holds a line break, and {launcher} over pdsh takes one line a "
            message += "variable"
            hint = "leave ssh: pdsh out, or export it under setup: in the program's own way"
            problems.append(look.wrong_job("J215", message, "env", name, hint=hint))
    return problems
