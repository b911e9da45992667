"""What a launcher cannot do: settings of another one, and programs of ``run:``."""

from __future__ import annotations

from jobgen.errors import Problem
from jobgen.launch.nesting import Ranks, check_programs
from jobgen.model.plan import Shape
from jobgen.resolve.look import Look

_TAKES = {
    "rdzv": ("torchrun",),
    "max_restarts": ("torchrun",),
    "args": ("torchrun", "srun", "deepspeed", "accelerate"),
    "ssh": ("deepspeed",),
    "config": ("deepspeed", "accelerate"),
}
_NOTHING = {"rdzv": "c10d", "max_restarts": 0, "args": (), "ssh": "none", "config": None}


def problems(look: Look, launcher: str) -> list[Problem]:
    """What this launcher cannot do, each with who can."""
    found = []
    for key, launchers in _TAKES.items():
        if getattr(look.job.launcher, key) != _NOTHING[key] and launcher not in launchers:
            message = f"launcher.{key} means nothing to {launcher}"
            hint = f"it is a setting of {' and '.join(launchers)}"
            found.append(look.wrong_job("J215", message, "launcher", key, hint=hint))
    return [*found, *_elastic(look, launcher), *_pdsh(look, launcher)]


def programs(look: Look, launcher: str, size: Shape) -> list[Problem]:
    """Programs of ``run:`` that this launcher cannot start, where the file alone did not say so."""
    ranks = Ranks(launcher, size.nodes, size.world, look.job.name)
    problems = check_programs(look.spec.programs, ranks)
    return [problem for problem in problems if problem.severity == "error"]


def _elastic(look: Look, launcher: str) -> list[Problem]:
    if look.job.min_nodes is None:
        return []
    span = f"nodes: {look.job.min_nodes}:{look.job.nodes}"
    if launcher != "torchrun":
        message = f"{span}: {launcher} cannot go on when a node is lost"
        hint = "write launcher: torchrun, or one number of nodes"
        return [look.wrong_job("J217", message, "nodes", hint=hint)]
    if look.job.launcher.rdzv == "static":
        message = f"{span}: the static rendezvous knows one number of nodes only"
        hint = "leave rdzv: static out, or write one number of nodes"
        return [look.wrong_job("J217", message, "launcher", "rdzv", hint=hint)]
    return []


def _pdsh(look: Look, launcher: str) -> list[Problem]:
    if launcher != "deepspeed" or look.job.launcher.ssh != "pdsh":
        return []
    found = []
    if look.local:
        message = "launcher.ssh: pdsh, and the nodes of the local cluster are no ssh hosts"
        hint = "leave it out: srun then starts deepspeed on every node"
        found.append(look.wrong_job("J215", message, "launcher", "ssh", hint=hint))
    for name, value in look.job.env.items():
        if "\n" in value:
            message = (
                f"{name} holds a line break, and deepspeed over pdsh takes one line a variable"
            )
            hint = "leave ssh: pdsh out, or export it under setup: in the program's own way"
            found.append(look.wrong_job("J215", message, "env", name, hint=hint))
    return found
