"""What a launcher cannot do: settings of another one, fewer nodes, ssh, programs of ``run:``."""

from __future__ import annotations

from collections.abc import Iterator

from jobgen.errors import Diagnostic
from jobgen.launch.foreign_options import RankStart
from jobgen.launch.nesting import check_programs
from jobgen.model.launchers import LAUNCHERS, find_launchers, find_takers, name_starter
from jobgen.model.plan import Shape
from jobgen.model.settings import Launcher
from jobgen.resolve.inputs import Inputs
from jobgen.resolve.managed_options import check_options
from jobgen.shell.simple_commands import read_script
from jobgen.wording import join_words


def check_launcher(look: Inputs, launcher: str, size: Shape) -> Iterator[Diagnostic]:
    """What of this job its launcher cannot do, as far as the job alone did not show it."""
    for key, form in Launcher.keys.items():
        takers = find_takers(key)
        if takers and launcher not in takers and getattr(look.job.launcher, key) != form.default:
            message = f"launcher.{key} has no effect with {launcher}"
            hint = f"only {' and '.join(takers)} use it"
            yield look.diagnose_job("J215", message, "launcher", key, hint=hint)
    yield from check_options(look, launcher)
    if look.job.min_nodes is not None and not LAUNCHERS[launcher].elastic:
        span = f"{look.job.min_nodes}:{look.job.nodes}"
        message = f"nodes: {span}: {launcher} cannot continue after losing a node"
        elastic = join_words(find_launchers(lambda row: row.elastic), "or")
        hint = f"set launcher: {elastic}, or a fixed number of nodes"
        yield look.diagnose_job("J217", message, "nodes", hint=hint)
    starter = name_starter(launcher, look.job.launcher.ssh)
    if starter == launcher and look.local and size.nodes > 1:
        message = f"{launcher} starts the ranks of other nodes by Slurm's srun, which the local "
        hint = "set nodes: 1, or another launcher"
        yield look.diagnose_job("J215", f"{message}cluster does not have", "launcher", hint=hint)
    elif starter and starter != launcher:
        yield from _check_pdsh(look, launcher)
    ranks = RankStart(
        launcher, size.nodes, size.world, look.job.name, on_gpus=size.gpus_per_node > 0
    )
    for problem in check_programs(look.spec.programs, ranks):
        if problem.severity == "error":
            yield problem


def check_recipe(look: Inputs, launcher: str) -> Iterator[Diagnostic]:
    """What is wrong with ``run`` of a launcher whose tool takes a recipe or configuration."""
    command = LAUNCHERS[launcher].rank_command
    if not command:
        return
    script = read_script(look.job.run)
    words = [word.text for word in script.commands[0].words] if script.commands else []
    hint = f"each rank runs {' '.join(command)} with these words: write the recipe or "
    hint += "configuration and its own options"
    if not script.is_single or not words:
        message = f"run: {launcher} takes one command, without other commands beside it"
        yield look.diagnose_job("J247", message, "run", hint=hint)
        return
    foreign = words[:1] if words[0] in _TOOLS else [w for w in words if w in {"--", "--launcher"}]
    for word in foreign[:1]:
        message = f"run: '{word}' is not part of what {launcher} takes"
        yield look.diagnose_job("J247", message, "run", hint=hint)


_TOOLS = frozenset({"tune", "python", "python3", "accelerate", "torchrun"})
"""Words that begin a command, and no recipe."""


def _check_pdsh(look: Inputs, launcher: str) -> Iterator[Diagnostic]:
    if look.job.launcher.srun_args:
        message = "launcher.srun_args has no effect with ssh: pdsh, which starts no srun"
        hint = "remove one of the two"
        yield look.diagnose_job("J215", message, "launcher", "srun_args", hint=hint)
    if look.local:
        message = (
            "launcher.ssh: pdsh needs ssh between nodes, which the local cluster does not have"
        )
        hint = f"remove it; srun then starts {launcher} on every node"
        yield look.diagnose_job("J215", message, "launcher", "ssh", hint=hint)
    for name in (name for name, value in look.job.env.items() if "\n" in value):
        message = f"{name} contains a line break; {launcher} with pdsh needs one line per variable"
        hint = f"remove ssh: pdsh, or export {name} under setup:"
        yield look.diagnose_job("J215", message, "env", name, hint=hint)
