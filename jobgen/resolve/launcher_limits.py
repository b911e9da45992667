"""What a launcher cannot do: settings of another one, fewer nodes, ssh, programs of ``run:``."""

from __future__ import annotations

from collections.abc import Iterator

from jobgen.errors import Diagnostic
from jobgen.launch.nesting import RankStart, check_programs
from jobgen.model.launchers import LAUNCHERS, find_launchers, find_takers, join_or
from jobgen.model.plan import Shape
from jobgen.model.settings import Launcher
from jobgen.resolve.inputs import Inputs


def check_launcher(look: Inputs, launcher: str, size: Shape) -> Iterator[Diagnostic]:
    """What of this job its launcher cannot do, as far as the job alone did not show it."""
    for key, form in Launcher.keys.items():
        takers = find_takers(key)
        if takers and launcher not in takers and getattr(look.job.launcher, key) != form.default:
            message = f"launcher.{key} means nothing to {launcher}"
            hint = f"it is a setting of {' and '.join(takers)}"
            yield look.diagnose_job("J215", message, "launcher", key, hint=hint)
    if look.job.min_nodes is not None and not LAUNCHERS[launcher].elastic:
        span = f"{look.job.min_nodes}:{look.job.nodes}"
        message = f"nodes: {span}: {launcher} cannot go on when a node is lost"
        elastic = join_or(find_launchers(lambda row: row.elastic))
        hint = f"write launcher: {elastic}, or one number of nodes"
        yield look.diagnose_job("J217", message, "nodes", hint=hint)
    if "ssh" in LAUNCHERS[launcher].settings and look.job.launcher.ssh == "pdsh":
        yield from _check_pdsh(look, launcher)
    ranks = RankStart(launcher, size.nodes, size.world, look.job.name)
    for problem in check_programs(look.spec.programs, ranks):
        if problem.severity == "error":
            yield problem


def _check_pdsh(look: Inputs, launcher: str) -> Iterator[Diagnostic]:
    if look.local:
        message = "launcher.ssh: pdsh, and the nodes of the local cluster are no ssh hosts"
        hint = f"leave it out: srun then starts {launcher} on every node"
        yield look.diagnose_job("J215", message, "launcher", "ssh", hint=hint)
    for name in (name for name, value in look.job.env.items() if "\n" in value):
        message = f"{name} holds a line break, and {launcher} over pdsh takes one line a variable"
        hint = "leave ssh: pdsh out, or export it under setup: in the program's own way"
        yield look.diagnose_job("J215", message, "env", name, hint=hint)
