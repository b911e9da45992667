"""Programs of ``run:`` that cannot be the ranks of a job: launchers inside of another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from jobgen.errors import Problem
from jobgen.launch import LAUNCHERS

if TYPE_CHECKING:
    from jobgen.model.loaded import PlacedProgram
    from jobgen.shell.programs import StartedProgram

_WHOLE_JOB = frozenset({"srun", "mpirun", "jsrun", "aprun", "horovodrun", "flux"})
"""Launchers that start the ranks of all nodes at once."""
_DEFAULT = "torchrun"


def check_programs(
    programs: Sequence[PlacedProgram], launcher: str, nodes: int, world: int
) -> Iterator[Problem]:
    """What is wrong with these under a launcher; an empty one is not named in the job.

    ``world`` is the number of ranks, as far as it is known.
    """
    if launcher == "plain":
        yield from _alone(programs, nodes)
    elif launcher or world > 1:
        yield from _nested(programs, launcher or _DEFAULT, nodes)


def _nested(programs: Sequence[PlacedProgram], launcher: str, nodes: int) -> Iterator[Problem]:
    for program, place in programs:
        if program.launcher is None:
            continue
        if program.command.some_ranks:
            message = f"run: '{program.name}' starts ranks of its own from some ranks of this job"
            hint = "right if they do not wait for the other ranks of the job"
            yield Problem("J306", message, place, hint, "warning")
            continue
        message = f"run: '{program.name}' is a second launcher: every rank of {launcher} would "
        message += "start a training of its own"
        yield Problem("J306", message, place, _instead(program, launcher, nodes))


def _instead(program: StartedProgram, launcher: str, nodes: int) -> str:
    kind = program.launcher.kind if program.launcher else ""
    if program.launcher and not program.launcher.program:
        return "write launcher: plain, which runs the command once on each node"
    hint = f"write '{program.alone}'" if program.alone else "write the program alone"
    other = kind in LAUNCHERS and kind != launcher
    hint += f" and launcher: {kind}" if other else f": {launcher} starts its ranks"
    keeps = program.spans_nodes if nodes > 1 else kind != "srun"
    return f"{hint}; launcher: plain keeps the command as it is" if keeps else hint


def _alone(programs: Sequence[PlacedProgram], nodes: int) -> Iterator[Problem]:
    """Launchers that ``plain`` would start on each node, without a word about the others."""
    for program, place in programs:
        if program.launcher is None or nodes < 2 or program.command.some_ranks:
            continue
        kind = program.launcher.kind
        if kind not in _WHOLE_JOB and program.spans_nodes:
            continue
        what = f"{nodes} independent trainings"
        message = f"run: launcher: plain starts '{program.name}' on each of {nodes} nodes: {what}"
        hint = "name the nodes in its options"
        if kind in LAUNCHERS:
            hint = f"write launcher: {kind}"
            hint += f" and '{program.alone}'" if program.alone else " and the program alone"
        yield Problem("J309", message, place, hint, "warning")
