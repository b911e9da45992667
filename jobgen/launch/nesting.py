"""Programs of ``run:`` that cannot be the ranks of a job: a second launcher, a second program."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from jobgen.errors import Diagnostic
from jobgen.launch.distributed import forms_group
from jobgen.launch.foreign_options import RankStart, write_alone
from jobgen.model.launchers import DEFAULT, LAUNCHERS, get_facts

if TYPE_CHECKING:
    from jobgen.model.loaded import PlacedProgram
    from jobgen.shell.started_program import StartedProgram

_WHOLE_JOB = frozenset({"srun", "mpirun", "mpiexec.hydra", "jsrun", "aprun", "horovodrun", "flux"})
"""Launchers that start the ranks of all nodes at once."""
_MEETING = "rdzv_endpoint|master_addr|main_process_ip|main_address|host(file)?"
"""Options that name a host where the nodes meet."""
_HERE = r"localhost|127\.|::1|\[::1|$"


def check_programs(
    programs: Sequence[PlacedProgram], ranks: RankStart, started: Sequence[StartedProgram] = ()
) -> Iterator[Diagnostic]:
    """What is wrong with these programs under the job's launcher.

    ``started`` is all that the text starts: what the programs start is part of the advice.
    """
    if not ranks.launcher and ranks.world == 1:
        return  # plain, or the profile knows of more ranks
    ranks = ranks._replace(launcher=ranks.launcher or DEFAULT, named=bool(ranks.launcher))
    if get_facts(ranks.launcher).task == "command":
        yield from _alone(programs, ranks)
        return
    yield from _nested(programs, ranks, started)
    if ranks.world > 1:
        yield from _second(programs, ranks)


def _nested(
    programs: Sequence[PlacedProgram], ranks: RankStart, started: Sequence[StartedProgram]
) -> Iterator[Diagnostic]:
    for program, place in programs:
        if program.launcher is None:
            continue
        if program.command.some_ranks:
            message = (
                f"run: '{program.name}' is a launcher inside the job's launcher, on some ranks only"
            )
            hint = "this works only if the job's other ranks do not wait for it"
            yield Diagnostic("J306", message, place, hint, "warning")
            continue
        message = f"run: '{program.name}' is a second launcher: every rank would start "
        message += "a training of its own"
        yield Diagnostic("J306", message, place, _instead(program, ranks, started))


def _find_agent(
    program: StartedProgram, started: Sequence[StartedProgram]
) -> StartedProgram | None:
    """What starts the ranks of ``srun torchrun train.py``: the last launcher of jobgen's."""
    if program.launcher is None or program.launcher.kind not in _WHOLE_JOB:
        return None
    agents = (
        one
        for one in reversed(started)
        if one.launcher and one.launcher.kind in LAUNCHERS
        if any(starter.start == program.start for starter in one.list_starters())
    )
    agent = next(agents, None)
    return agent and agent._replace(before=program.before)


def _instead(program: StartedProgram, ranks: RankStart, started: Sequence[StartedProgram]) -> str:
    agent = _find_agent(program, started)
    if agent is not None:
        return write_alone(agent, ranks)
    kind = program.launcher.kind if program.launcher else ""
    if program.launcher and not program.launcher.program:
        return "set launcher: plain, which runs the command once per node"
    hint = write_alone(program, ranks)
    if kind not in LAUNCHERS or kind == ranks.launcher:
        hint += f"; {ranks.launcher} starts its ranks"
    keeps = _finds_nodes(program) if ranks.nodes > 1 else get_facts(kind).task != "rank"
    return f"{hint}; or set launcher: plain to keep the command" if keeps else hint


def _finds_nodes(program: StartedProgram) -> bool:
    """Whether the launcher's own options let its copies on several nodes find each other."""
    launcher, options = program.launcher, program.options
    if launcher is None or launcher.kind in _WHOLE_JOB or not program.spans_nodes:
        return False
    if not any(map(launcher.nodes.fullmatch, options)):
        return True  # they stand in a variable
    hosts = [value for name, value in options.items() if re.fullmatch(_MEETING, name)]
    return any(not re.match(_HERE, host) for host in hosts)


def _alone(programs: Sequence[PlacedProgram], ranks: RankStart) -> Iterator[Diagnostic]:
    """Launchers that ``plain`` would start on each node, without a word about the others."""
    nodes = ranks.nodes
    for program, place in programs:
        if program.launcher is None or nodes < 2 or program.command.some_ranks:
            continue
        kind = program.launcher.kind
        if kind not in _WHOLE_JOB and program.spans_nodes:
            continue
        what = f"{nodes} independent training runs"
        message = f"run: launcher: plain starts '{program.name}' on each of {nodes} nodes: {what}"
        hint = "pass the nodes in its options"
        if kind in LAUNCHERS:
            hint = write_alone(program, ranks)
        yield Diagnostic("J309", message, place, hint, "warning")


def _second(programs: Sequence[PlacedProgram], ranks: RankStart) -> Iterator[Diagnostic]:
    """Tried with torch 2.13: under torchrun and accelerate the ranks of a second program find the
    first one's keys in the agent's store, and hang or fail. Where rank 0 holds the store (srun,
    deepspeed), that happens to ranks that are ready before rank 0 has left the first one."""
    certain = get_facts(ranks.launcher).keeps_store
    what = (
        "would hang or fail"
        if certain
        else "may hang: they must not start before rank 0 has left it"
    )
    first: dict[int, str] = {}
    for program, place in programs:
        if not forms_group(program, ranks.launcher):
            continue
        name = program.name
        if program.rendezvous in first:
            message = f"run: '{name}' is a second distributed program: its ranks would reuse the "
            message += f"rendezvous of '{first[program.rendezvous]}' and {what}"
        elif program.command.repeated:
            message = f"run: the loop starts '{name}' repeatedly: later ranks would reuse "
            message += f"the first rendezvous and {what}"
        else:
            first[program.rendezvous] = name
            continue
        hint = f"make it a separate job with after: [{ranks.name}]; if it is not distributed, "
        hint += 'move it to setup: or run it on one rank: if [ "$RANK" = 0 ]; then …; fi'
        yield Diagnostic("J223", message, place, hint, "error" if certain else "warning")
