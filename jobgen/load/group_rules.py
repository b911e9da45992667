"""Rules of a job with groups: what does not go with programs that run at the same time."""

from __future__ import annotations

import re

from jobgen.load.tree import Path, Tree, join_path
from jobgen.model.fields import find_nearest
from jobgen.model.groups import count_nodes, name_variable
from jobgen.model.launchers import get_facts

_GROUPS: Path = ("groups",)
_VARIABLE = re.compile(r"\b(JOBGEN_(?:HOSTS?|PORT)_)(\w+)", re.ASCII)


def check(tree: Tree) -> None:
    """Say what contradicts groups, and whether their nodes make up those of the job."""
    if not tree.get_table(*_GROUPS):
        return
    for key in ("run", "steps"):
        if key in tree.data:
            message = f"{key} and groups exclude each other: each group has a run of its own"
            tree.contradict(message, [(key,), _GROUPS], f"move {key} into a group")
    if "train" in tree.data:
        message = "train describes one program, but groups has several"
        tree.contradict(
            message, [_GROUPS, ("train",)], "move train into the group that it describes"
        )
    if tree.get_text("preflight") == "full":
        message = "preflight: full measures the network for one program, but groups has several"
        tree.contradict(message, [_GROUPS, ("preflight",)], "set preflight: auto")
    _check_starters(tree)
    _check_names(tree)
    total, asked = count_nodes(tree.get(*_GROUPS)), tree.get_text("nodes")
    if total is not None and asked and asked != str(total):
        message = f"nodes: {asked}, but the groups have {total}"
        tree.contradict(message, [_GROUPS, ("nodes",)], f"remove nodes, or set nodes: {total}")


def _check_names(tree: Tree) -> None:
    """Say which variables are those of no group, wherever they stand."""
    names = [name_variable(str(name)) for name in tree.get_table(*_GROUPS)]
    for path, value in tree.list_scalars():
        for match in _VARIABLE.finditer(value) if isinstance(value, str) else ():
            kind, name = match.groups()
            if name in names:
                continue
            message = f"{match[0]} is not set: no group has this name"
            near = find_nearest(name.upper(), names)
            hint = f"did you mean {kind}{near}?" if near else f"groups: {', '.join(names)}"
            place = tree.locate_part(path, match.start(), len(match[0]))
            tree.note("J330", message, path, hint, place=place)


def _check_starters(tree: Tree) -> None:
    """A launcher of all nodes starts on the job's first node, which is that of one group only."""
    parts = [("launcher",), *((*group, "launcher") for group in tree.list_steps())]
    for path, hint in (
        *((path, "set launcher: srun") for part in parts for path in (part, (*part, "type"))),
        *(((*part, "ssh"), "remove it: srun starts one per node") for part in parts),
    ):
        word = tree.get_text(*path)
        if word == "pdsh" or get_facts(word).starts_all_nodes:
            message = f"{join_path(path)}: {word} starts from the job's first node, not the group's"
            tree.contradict(message, [_GROUPS, path], hint)
