"""Rules about the commands of ``run:``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobgen.load.tree import Tree
from jobgen.model.loaded import PlacedProgram
from jobgen.model.units import clip
from jobgen.shell.programs import read_programs

if TYPE_CHECKING:
    from jobgen.model.cluster import ClusterProfile

_RUN = ("run",)


def check(tree: Tree, cluster: ClusterProfile | None) -> None:
    """Check what ``run:`` starts, as far as the launcher and the ranks are known."""
    for program in read_programs(tree.text("run")):
        place = tree.inside(_RUN, program.start, program.end - program.start)
        tree.programs.append(PlacedProgram(program, place))
    if not tree.programs:
        return
    _outside(tree)
    from jobgen.launch.nesting import Ranks, check_programs

    nodes = _nodes(tree)
    launcher = tree.text("launcher", "type") or tree.text("launcher")
    launcher = "plain" if launcher == "none" else launcher
    job = Ranks(launcher, nodes, _world(tree, nodes, cluster), tree.text("name"))
    for problem in check_programs(tree.programs, job):
        if problem.severity == "error":
            tree.say(problem.code, problem.message, _RUN, problem.hint, place=problem.place)
        else:
            tree.note(problem.code, problem.message, _RUN, problem.hint, place=problem.place)


def _outside(tree: Tree) -> None:
    """The program lies in the workdir, or in the container's image."""
    for program, place in tree.programs:
        script = program.script
        outside = ".." in script.split("/") or script.startswith("~")
        if outside or (script.startswith("/") and "container" not in tree.data):
            message = f"run: '{clip(script)}' lies outside the workdir, which is what gets uploaded"
            hint = "set workdir: to the folder that holds it, and name it relative to that"
            tree.say("J136", message, _RUN, hint, place=place)


def _world(tree: Tree, nodes: int, cluster: ClusterProfile | None) -> int:
    """Ranks of the job, at least."""
    gpus = _count(tree, "gpus_per_node")
    if gpus is None and cluster is not None:
        gpus = cluster.nodes.gpus_per_node
    each = gpus or _count(tree, "procs_per_node") or (cluster and cluster.procs_per_node) or 1
    return nodes * each


def _nodes(tree: Tree) -> int:
    most = tree.text("nodes").rpartition(":")[2]
    return int(most) if most.isdecimal() and len(most) < 7 else 1


def _count(tree: Tree, key: str) -> int | None:
    value = tree.text(key)
    return int(value) if value.isdecimal() and len(value) < 7 else None
