"""Rules about files that are valid: habits that cost time, or give a secret away."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobgen.load.env_rules import list_secrets
from jobgen.load.tree import Path, Tree, join_path
from jobgen.shell.script_variables import (
    find_assignments,
    find_unexported,
    find_used,
    switches_option,
)

_SHELL: tuple[Path, ...] = (("run",), ("setup",), ("before",), ("finally",))
_ENV: tuple[Path, ...] = (("env",), ("nccl", "env"), ("network", "env"), ("defaults", "env"))


def lint_job(tree: Tree, used: frozenset[str]) -> None:
    """What the rules find in a job."""
    for rule in (_name, _preload, _xtrace, _submits, _array, _unexported):
        rule(tree)
    for name in tree.get_table("vars"):
        if name not in used:
            message = f"vars.{name} is not used"
            tree.note("J163", message, ("vars", name), f"use ${{{name}}}, or remove it")


def lint_cluster(tree: Tree) -> None:
    """What the rules find in a profile."""
    _preload(tree)


def _name(tree: Tree) -> None:
    if tree.get_text("name") in {"bash", "interactive"}:
        message = f"name: {tree.get_text('name')} disables Lightning's detection of Slurm"
        tree.note("J301", message, ("name",), "choose another name")


def _preload(tree: Tree) -> None:
    for path in _ENV:
        if "LD_PRELOAD" in tree.get_table(*path):
            message = f"{join_path((*path, 'LD_PRELOAD'))} is loaded into every program"
            hint = "including srun and the launcher; set it in run: for the training program only"
            tree.note("J302", message, (*path, "LD_PRELOAD"), hint, "note")


def _list_shell(tree: Tree) -> Iterator[Path]:
    """Where a job has text for a shell."""
    yield from _SHELL
    yield from ((*step, "run") for step in tree.list_steps())
    yield from ((*step, "ready", "command") for step in tree.list_steps())


def _xtrace(tree: Tree) -> None:
    secrets = tree.get("secrets")
    if not secrets:
        return
    for path in _list_shell(tree):
        started = tree.read_shell(*path).started
        if any(switches_option(program.words, "x", "xtrace") for program in started):
            message = f"{join_path(path)}: set -x prints all commands to the log, including secrets"
            tree.note("J305", message, path, "remove set -x, or the secrets", "error")


def _submits(tree: Tree) -> None:
    for path in _list_shell(tree):
        shell = tree.read_shell(*path)
        comments = (re.match(r"#SBATCH\b", comment.text) for comment in shell.script.comments)
        if any(comments) or any(program.name == "sbatch" for program in shell.started):
            message = f"{join_path(path)}: #SBATCH lines and sbatch have no effect inside a job"
            tree.note("J307", message, path, "sbatch options go under slurm:")


def _array(tree: Tree) -> None:
    indexes = tree.get_text("array")
    if not indexes or tree.get("sweep") is not None:
        return
    from jobgen.model.array import measure_array
    from jobgen.model.units import UnitError

    try:
        size = measure_array(indexes)
    except UnitError:  # refused before
        return
    message = f"array: {size.describe()}, each with the job's nodes and time"
    hint = "the program must read its index from $SLURM_ARRAY_TASK_ID"
    tree.note("J147", message, ("array",), hint, "note")


def _unexported(tree: Tree) -> None:
    """A variable of setup that run reads, but does not get: run is a script of its own."""
    setup = tree.read_shell("setup")
    assigned = find_unexported(setup.script)
    for above in tree.list_steps() or [()] if assigned else ():
        run = tree.read_shell(*above, "run")
        known = {name for name, _ in find_assignments(run.text)} | set(list_secrets(tree))
        known |= {*tree.get_table("env"), *tree.get_table(*above, "env")}
        for name in sorted(find_used(run.script) & assigned.keys() - known):
            word = assigned[name]
            path, place = setup.locate(word.start, word.end)
            program = join_path((*above, "run"))
            message = (
                f"{join_path(path)}: {name} is an array, which bash does not pass to {program}"
            )
            hint = f"move the line into {program}"
            if "=(" not in word.raw:
                message = f"{join_path(path)}: {name} is not exported, so {program} does not get it"
                hint = f"write export {name}=…, or {hint}"
            tree.note("J168", message, path, hint, place=place)
