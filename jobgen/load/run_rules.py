"""Rules about shell text: what ``run:`` starts, quotes, arguments, variables expanded too early."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jobgen.errors import Place
from jobgen.load.job_rules import read_launcher
from jobgen.load.tree import Path, Tree, join_path
from jobgen.model.loaded import PlacedProgram, StepPrograms
from jobgen.model.units import clip
from jobgen.shell import list_names
from jobgen.shell.lexer import ShellWord
from jobgen.shell.script_variables import find_arguments
from jobgen.shell.started_program import StartedProgram

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
    for top in (("setup",), ("before",), ("finally",)):
        _check_text(tree, top)
    check_variables(tree)
    for above in tree.list_steps() or [()]:
        started = _check_run(tree, above, cluster)
        tree.programs += started.programs
        tree.scripts += started.scripts
        if above:
            tree.by_step.append(started)


def _check_run(tree: Tree, above: Path, cluster: ClusterProfile | None) -> StepPrograms:
    """Check what ``run`` starts: that of a step, which ``above`` leads to, or the job's own."""
    top = (*above, *_RUN)
    _check_text(tree, top)
    run, programs, scripts = tree.read_shell(*top), list[PlacedProgram](), list[PlacedProgram]()
    for program in run.started:
        _, place = run.locate(program.start, program.end)
        placed = PlacedProgram(program, place)
        if program.is_training:
            programs.append(placed)
            _check_path(tree, program, place)
        if program.shell_script or (program.is_training and program.script):
            scripts.append(placed)
    if programs:
        _check_programs(tree, programs, above, cluster)
    return StepPrograms(tuple(programs), tuple(scripts))


def check_profile(tree: Tree) -> None:
    """Check the shell text of a cluster's profile."""
    _check_text(tree, ("defaults", "setup"))
    check_variables(tree)


def check_variables(tree: Tree) -> None:
    """Check values whose variables the batch script expands, before any rank starts."""
    for top in _EXPANDED:
        for path, value in tree.list_scalars(*top):
            for name in list_names(value) if isinstance(value, str) and "$" in value else ():
                _check_variable(tree, path, name)


def _check_variable(tree: Tree, path: Path, name: str) -> None:
    if name in _FOLDERS:
        message = f"{join_path(path)}: ${name} is the run directory, not the program's directory"
        hint = "the program starts in $JOBGEN_WORK_DIR"
        tree.note("J165", message, path, hint, "note")
    elif name in _OF_RANKS:
        message = f"{join_path(path)}: ${name} is expanded once, by the batch script, not per rank"
        tree.note("J165", message, path, "export it in run:, which every rank expands itself")


# ---- text


def _check_text(tree: Tree, top: Path) -> None:
    """Check one block of shell text, which may be a list of lines."""
    shell = tree.read_shell(*top)
    opened = shell.script.open_quote
    if opened is not None:
        message = f"{join_path(top)}: unclosed quote"
        _, place = shell.locate(opened, opened + 1)
        tree.say("J213", message, top, "close it, or write \\'", place=place)
        return
    for command in shell.script.commands:
        first = command.words[0].text if command.words else ""
        if first.startswith("-") and first != "-m":  # python is put before it
            _refuse_option(tree, top, command.words[0])
    for word in find_arguments(shell.script):
        message = (
            f"{join_path(top)}: {word.text} is empty, because {join_path(top)} has no arguments"
        )
        hint = "write the value, use ${NAME} from vars:, or call set -- ARGUMENTS first"
        _, place = shell.locate(word.start, word.end)
        tree.say("J164", message, top, hint, place=place)


def _refuse_option(tree: Tree, top: Path, word: ShellWord) -> None:
    """An option where a command begins: one of sbatch, probably, or of a command left out."""
    from jobgen.data import sbatch_options

    name, equals, value = word.text.lstrip("-").partition("=")
    option = sbatch_options().get(name)
    hint = "write the command before it"
    if option and word.text.startswith("--"):
        example = "VALUE" if option.takes == "required" else "true"
        shown = value if equals and value else example
        hint = f"did you mean slurm: {{{name}: {clip(shown)}}}?"
        if option.rule == "refuse":
            hint = f"use {option.key} instead" if option.key else "remove it: jobgen sets it"
    message = f"{join_path(top)}: '{clip(word.text)}' is an option, not a command"
    _, place = tree.read_shell(*top).locate(word.start, word.end)
    tree.say("J225", message, top, hint, place=place)


# ---- programs


def _check_path(tree: Tree, program: StartedProgram, place: Place | None) -> None:
    """The program lies in the workdir, in the container's image, or on the cluster."""
    script = program.script
    if script.startswith("/"):
        if "container" not in tree.data:
            message = f"run: '{clip(script)}' is neither uploaded nor checked"
            hint = (
                "it must exist on every node; to upload it, put it into the workdir and use a "
                "relative path"
            )
            tree.note("J224", message, _RUN, hint, "note", place=place)
        return
    depth = 0
    for part in f"{program.folder or ''}/{script}".split("/"):
        depth += -1 if part == ".." else part not in {"", "."}
        if depth < 0:
            break
    if script.startswith("~") or (depth < 0 and program.folder is not None):
        message = f"run: '{clip(script)}' is outside the workdir, so that it is not uploaded"
        hint = "set workdir: to a folder that contains it, and use a path relative to that"
        if script.startswith("~"):
            hint += f"; on the cluster it is $HOME{clip(script[1:])}"
        tree.say("J136", message, _RUN, hint, place=place)


def _check_programs(
    tree: Tree, programs: Sequence[PlacedProgram], above: Path, cluster: ClusterProfile | None
) -> None:
    from jobgen.launch.foreign_options import RankStart
    from jobgen.launch.nesting import check_programs

    nodes = _count_nodes(tree, above)
    each, on_gpus = _find_ranks(tree, above, cluster)
    name, top = tree.get_text("name"), (*above, *_RUN)
    launcher = read_launcher(tree, above) or read_launcher(tree)
    job = RankStart(launcher, nodes, nodes * each, name, on_gpus=on_gpus)
    for problem in check_programs(programs, job, tree.read_shell(*top).started):
        if problem.severity == "error":
            tree.say(problem.code, problem.message, top, problem.hint, place=problem.place)
        else:
            tree.note(problem.code, problem.message, top, problem.hint, place=problem.place)


def _find_ranks(tree: Tree, above: Path, cluster: ClusterProfile | None) -> tuple[int, bool]:
    """Ranks on each node, at least, and whether GPUs are what counts them, as far as is known."""
    asked = _count(tree, ("gpus_per_node",))
    own = _count(tree, (*above, "gpus_per_node")) if above else None
    if own is not None or (above and tree.get(*above, "on")):
        asked = own or 0
    procs = _count(tree, (*above, "procs_per_node")) or _count(tree, ("procs_per_node",))
    there = cluster.nodes.gpus_per_node if cluster else None
    gpus = there if asked is None or (procs and there == 0) else asked
    if gpus:
        shared = _count(tree, (*above, "ranks_per_gpu")) or _count(tree, ("ranks_per_gpu",))
        return gpus * (shared or 1), True
    each = procs or (cluster and cluster.procs_per_node) or 1
    return each, gpus is None and not procs


def _count_nodes(tree: Tree, above: Path) -> int:
    """Nodes of the job, or of its step or group at this path, as far as is known."""
    shared = (*above[:1], tree.get_text(*above, "on"), "nodes") if above else ()
    return _count(tree, (*above, "nodes")) or (shared and _count(tree, shared)) or _nodes(tree)


def _nodes(tree: Tree) -> int:
    most = tree.get_text("nodes").rpartition(":")[2]
    return int(most) if most.isdecimal() and len(most) < 7 else 1


def _count(tree: Tree, path: Path) -> int | None:
    value = tree.get_text(*path)
    return int(value) if value.isdecimal() and len(value) < 7 else None
