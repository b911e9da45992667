"""Rules of a job with steps: keys of the whole job that do not go with several programs."""

from __future__ import annotations

from jobgen.load.tree import Path, Tree, join_path
from jobgen.model.steps import MOST_RUNS, is_step_name
from jobgen.wording import count

_STEPS: Path = ("steps",)
_REPEAT: Path = ("repeat",)


def check(tree: Tree) -> None:
    """Say what contradicts steps, and which of them do not fit into the job's nodes."""
    _check_rounds(tree)
    if not tree.get("steps"):
        return
    if "run" in tree.data:
        message = "run and steps exclude each other: each step has a run of its own"
        tree.contradict(message, [("run",), _STEPS], "move run into a step")
    if "train" in tree.data:
        message = "train describes one program, but steps has several"
        tree.contradict(message, [_STEPS, ("train",)], "move train into the step that it describes")
    if ":" in tree.get_text("nodes"):
        message = "steps need a fixed number of nodes, but nodes is MIN:MAX"
        tree.contradict(message, [_STEPS, ("nodes",)], "set nodes to one number")
    if tree.get_text("preflight") == "full":
        message = "preflight: full measures the network for one program, but steps has several"
        tree.contradict(message, [_STEPS, ("preflight",)], "set preflight: auto")
    if tree.get_text("nodes").isdecimal():
        _check_nodes(tree, int(tree.get_text("nodes")[:7]))


def _check_rounds(tree: Tree) -> None:
    """Say if the rounds run too many steps, and whose name leaves no room for their numbers."""
    steps, asked = tree.list_steps(), tree.get_text("repeat")
    if "repeat" in tree.data and not tree.get("steps"):
        message = "repeat is for steps, but the job has none"
        tree.say("J138", message, _REPEAT, "write steps: [{run: train.py}] instead of run")
    if not asked.isdecimal() or not tree.get("steps"):
        return
    rounds = int(asked[:7])
    if rounds * len(steps) > MOST_RUNS:
        runs = f"{rounds} rounds of {count(len(steps), 'step')}"
        message = f"repeat: {runs}, but at most {MOST_RUNS} steps are supported"
        tree.say("J122", message, _REPEAT, f"use {MOST_RUNS // len(steps)} or fewer")
    for step in steps if rounds > 1 else ():
        path = (*step, "name")
        name = tree.get_text(*path)
        if is_step_name(name) and not is_step_name(f"{name}-{rounds}"):
            message = f"{join_path(path)}: too long for the name of round {rounds}, {name}-{rounds}"
            tree.say("J120", message, path, f"use {31 - len(str(rounds))} characters or fewer")


def _check_nodes(tree: Tree, nodes: int) -> None:
    """Say which step is larger than the job, and if none is as large."""
    most = 0
    for step in tree.list_steps():
        path = (*step, "nodes")
        asked = tree.get_text(*path)
        count = int(asked[:7]) if asked.isdecimal() else nodes
        most = max(most, count)
        if count > nodes:
            message = f"{join_path(path)}: {count}, but the job has {nodes}"
            tree.contradict(message, [("nodes",), path], f"set nodes: {nodes} or fewer")
    if most < nodes:
        message = f"nodes: {nodes}, but no step uses more than {most}"
        tree.contradict(message, [_STEPS, ("nodes",)], f"set nodes: {most}")
