"""Rules about shell text: what ``run:`` starts, quotes, arguments, variables expanded too early."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING

from jobgen.errors import Place
from jobgen.load.jobrules import read_launcher
from jobgen.load.tree import Path, Tree, dotted, written
from jobgen.model.loaded import PlacedProgram
from jobgen.model.units import clip
from jobgen.shell import names_in
from jobgen.shell.parameters import find_arguments, find_open_quote
from jobgen.shell.programs import StartedProgram, read_programs

if TYPE_CHECKING:
    from jobgen.model.cluster import ClusterProfile

_RUN = ("run",)
_EXPANDED: tuple[Path, ...] = (
    ("env",),
    ("nccl", "env"),
    ("checkpoint", "dir"),
    ("container", "image"),
    ("container", "mounts"),
    ("defaults", "env"),
    ("network", "env"),
)
"""Values in which the batch script expands ``$NAME``."""
_FOLDERS = frozenset({"PWD", "OLDPWD"})
_OF_RANKS = frozenset(
    {"RANK", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"}
    | {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURMD_NODENAME", "HOSTNAME"}
)
"""Variables that only a rank has, or that differ between nodes."""


def check_job(tree: Tree, cluster: ClusterProfile | None) -> None:
    """Check the shell text of a job; what the launcher decides, as far as the launcher is known."""
    for top in (_RUN, ("setup",)):
        _check_text(tree, top)
    check_variables(tree)
    for program in read_programs(tree.text("run")):
        place = tree.inside(_RUN, program.start, program.end - program.start)
        tree.programs.append(PlacedProgram(program, place))
        _check_path(tree, program, place)
    if tree.programs:
        _check_programs(tree, cluster)


def check_profile(tree: Tree) -> None:
    """Check the shell text of a cluster's profile."""
    _check_text(tree, ("defaults", "setup"))
    check_variables(tree)


def check_variables(tree: Tree) -> None:
    """Check values whose variables the batch script expands, before any rank starts."""
    for top in _EXPANDED:
        for path, value in tree.scalars(*top):
            for name in names_in(value) if isinstance(value, str) and "$" in value else ():
                _check_variable(tree, path, name)


def _check_variable(tree: Tree, path: Path, name: str) -> None:
    if name in _FOLDERS:
        message = f"{dotted(path)}: ${name} is the run directory, in which the batch script runs"
        hint = "the program starts in $JOBGEN_WORK_DIR"
        tree.note("J165", message, path, hint, "note")
    elif name in _OF_RANKS:
        message = f"{dotted(path)}: ${name} is expanded by the batch script, once for all ranks"
        tree.note("J165", message, path, "export it in run:, which every rank reads for itself")


# ---- text


def _check_text(tree: Tree, top: Path) -> None:
    """Check one block of shell text, which may be a list of lines."""
    lines = [(path, written(value)) for path, value in tree.scalars(*top)]
    text = "\n".join(line for _, line in lines)
    starts = [0, *accumulate(len(line) + 1 for _, line in lines)]

    def place(start: int, length: int) -> Place | None:
        at = bisect_right(starts, start, hi=len(lines)) - 1
        return tree.inside(lines[at][0], start - starts[at], length)

    opened = find_open_quote(text)
    if opened is not None:
        message = f"{dotted(top)}: a quote is not closed"
        tree.say("J213", message, top, "close it, or write \\'", place=place(opened, 1))
        return
    for word in find_arguments(text):
        message = f"{dotted(top)}: {word.text} is empty: {dotted(top)} has no arguments"
        hint = "write the value, ${NAME} of vars:, or set -- ARGUMENTS before it"
        where = place(word.start, len(word.text))
        tree.say("J164", message, top, hint, place=where)


# ---- programs


def _check_path(tree: Tree, program: StartedProgram, place: Place | None) -> None:
    """The program lies in the workdir, in the container's image, or on the cluster."""
    script = program.script
    if script.startswith("/"):
        if "container" not in tree.data:
            message = f"run: '{clip(script)}' is not uploaded and not checked"
            hint = "every node must have it; a file of the workdir is named relative to that"
            tree.note("J224", message, _RUN, hint, "note", place=place)
        return
    depth = 0
    for part in f"{program.folder or ''}/{script}".split("/"):
        depth += -1 if part == ".." else part not in {"", "."}
        if depth < 0:
            break
    if script.startswith("~") or (depth < 0 and program.folder is not None):
        message = f"run: '{clip(script)}' lies outside the workdir, which is what gets uploaded"
        hint = "set workdir: to the folder that holds it, and name it relative to that"
        if script.startswith("~"):
            hint += f"; on the cluster it is $HOME{clip(script[1:])}"
        tree.say("J136", message, _RUN, hint, place=place)


def _check_programs(tree: Tree, cluster: ClusterProfile | None) -> None:
    from jobgen.launch.nesting import Ranks, check_programs

    nodes = _nodes(tree)
    job = Ranks(read_launcher(tree), nodes, _world(tree, nodes, cluster), tree.text("name"))
    for problem in check_programs(tree.programs, job):
        if problem.severity == "error":
            tree.say(problem.code, problem.message, _RUN, problem.hint, place=problem.place)
        else:
            tree.note(problem.code, problem.message, _RUN, problem.hint, place=problem.place)


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
