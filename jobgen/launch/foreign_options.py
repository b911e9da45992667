"""What a command with a launcher of its own means as a job: the program, and keys for the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from jobgen.data import launcher_options
from jobgen.launch.foreign_runners import describe_key, write_command
from jobgen.model.launchers import DEFAULT, LAUNCHERS, get_facts, name_agent
from jobgen.named_tuple import NamedTuple
from jobgen.wording import join_words

if TYPE_CHECKING:
    from jobgen.shell.simple_commands import SimpleCommand
    from jobgen.shell.started_program import StartedProgram


class RankStart(NamedTuple):
    """How the ranks of a job start, as far as it is known."""

    launcher: str
    """Empty where the job does not name it."""
    nodes: int
    world: int
    """Ranks of the job, at least."""
    name: str
    """The job's name."""
    on_gpus: bool = True
    """Whether the nodes' GPUs count the ranks."""
    named: bool = True
    """Whether the job names the launcher."""


class _Counts(NamedTuple):
    """A launcher's options that count nodes and ranks."""

    nodes: tuple[str, ...] = ()
    each: tuple[str, ...] = ()
    """Ranks of one node."""
    total: tuple[str, ...] = ()


_TORCHRUN = _Counts(("nnodes",), ("nproc_per_node",))
_MPIRUN = _Counts((), ("npernode", "ppn"), ("np", "n"))
_COUNTS: Mapping[str, _Counts] = {
    "torchrun": _TORCHRUN,
    "torchtune": _TORCHRUN,
    "colossalai": _TORCHRUN,
    "accelerate": _Counts(("num_machines",), (), ("num_processes",)),
    "deepspeed": _Counts(("num_nodes",), ("num_gpus", "num_accelerators")),
    "srun": _Counts(("N", "nodes"), ("ntasks_per_node", "gpus_per_node"), ("n", "ntasks")),
    "mpirun": _MPIRUN,
    "mpiexec.hydra": _MPIRUN,
    "horovodrun": _MPIRUN,
    "composer": _Counts((), ("n", "nproc"), ("world_size",)),
    "fabric": _Counts(("num_nodes",), ("devices",)),
}
_KEPT: Mapping[str, Mapping[str, str]] = {
    "torchrun": {"max_restarts": "max_restarts"},
    "accelerate": {"config_file": "config"},
    "deepspeed": {},
    "composer": {},
    "torchtune": {"max_restarts": "max_restarts"},
}
"""Launcher that jobgen starts, too → its option → the key of ``launcher:`` for it."""
_OURS = (
    "rdzv_.*|node_rank|master_(addr|port)|standalone|machine_rank|main_process_.*|multi_gpu|cpu"
    "|same_network|hostfile|H|include|i|exclude|e|no_ssh.*|local_addr|launcher|force_multi|ssh_port"
    "|num_cpu_threads_per_process|gpu_ids|no_python|module|m|use_env|help|h"
)
"""Options for what jobgen decides itself, or that go with the launcher."""
_ENVIRONMENT = frozenset(
    {".", "source", "module", "ml", "conda", "mamba", "micromamba", "spack", "eval"}
    | {"export", "unset", "ulimit", "umask"}
)
"""Commands that prepare the environment of the next ones, as ``setup:`` does."""


def write_alone(program: StartedProgram, ranks: RankStart) -> str:
    """``write 'train.py'``, and the keys for what else the command says."""
    alone = f"'{program.alone}'" if program.alone else "the program alone"
    setup = _list_setup(program.before)
    if setup is None:
        alone += " in its place"
    keys = [*_list_counts(program, ranks), *_list_launcher(program, ranks, alone=setup is not None)]
    runners = list(program.list_starters())[bool(_write_command(program)) :]
    keys += filter(None, (describe_key(one, program) for one in runners))
    if setup:
        lines = [_quote(line) for line in setup]
        keys.append(f"setup: {lines[0] if len(lines) == 1 else '[' + ', '.join(lines) + ']'}")
    return f"write {alone} and set {join_words(keys, 'and')}" if keys else f"write {alone}"


def _list_counts(program: StartedProgram, ranks: RankStart) -> Iterator[str]:
    """Keys for the numbers of nodes and ranks that the command names and the job does not."""
    kind = program.launcher.kind if program.launcher else ""
    counts = _COUNTS.get(kind, _Counts())
    nodes = _find(program, counts.nodes)
    span = re.fullmatch(r"(?:([1-9]\d{0,5}):)?([1-9]\d{0,5})", nodes)
    least, most = (span[1] or span[2], span[2]) if span else ("", "")
    if least != most and (kind == ranks.launcher or not ranks.named):
        yield f"nodes: {nodes}"
    elif span and int(most) != ranks.nodes:
        yield f"nodes: {most}"
    number = int(most) if span else ranks.nodes
    each, total = _find(program, counts.each), _find(program, counts.total)
    if not each.isdecimal() and total.isdecimal() and int(total) % number == 0:
        each = str(int(total) // number)
    if each.isdecimal() and 0 < int(each) != ranks.world // ranks.nodes:
        yield f"{'gpus' if ranks.on_gpus else 'procs'}_per_node: {int(each)}"


def _find(program: StartedProgram, names: tuple[str, ...]) -> str:
    """The value of the first of these options; empty where none is written."""
    values = (program.options[name] for name in names if name in program.options)
    return next((value for value in values if len(value) < 12), "")


def _list_launcher(program: StartedProgram, ranks: RankStart, *, alone: bool) -> Iterator[str]:
    """``launcher:`` with what the command's launcher was given besides."""
    kind = program.launcher.kind if program.launcher else ""
    settings = list(_list_settings(program, kind)) if kind in _KEPT else []
    if settings:
        yield f"launcher: {{type: {kind}, {', '.join(settings)}}}"
    elif kind in LAUNCHERS and kind != ranks.launcher:
        yield f"launcher: {kind}"
    elif not alone and not ranks.named:  # of several commands, no launcher is assumed
        yield f"launcher: {DEFAULT}"


def _write_command(program: StartedProgram) -> str:
    """``command`` of ``launcher:``, where the command's launcher needs one; else empty."""
    kind = program.launcher.kind if program.launcher else ""
    takes = kind in _KEPT and kind == name_agent(kind) and "command" in get_facts(kind).settings
    return write_command(program, kind) if takes else ""


def _list_settings(program: StartedProgram, kind: str) -> Iterator[str]:
    """Keys of ``launcher:`` for a command's options."""
    if command := _write_command(program):
        yield f"command: {_quote(command)}"
    counts = {name for names in _COUNTS[kind] for name in names}
    managed = {option.replace("-", "_") for option in launcher_options().get(name_agent(kind), {})}
    args = []
    for name, value in program.options.items():
        if key := _KEPT[kind].get(name):
            yield f"{key}: {_quote(value)}"
        elif name not in counts | managed and not re.fullmatch(_OURS, name):
            dashes = "--" if len(name) > 1 else "-"
            args.append(_quote(f"{dashes}{name}={value}" if value else f"{dashes}{name}"))
    if args:
        yield f"args: [{', '.join(args)}]"


def _list_setup(before: tuple[SimpleCommand, ...]) -> list[str] | None:
    """Lines of ``setup:`` for the commands before a launcher; None if they are more than that."""
    lines = []
    for command in before:
        name = command.words[0].text if command.words else "export"
        simple = command.always and not (command.background or command.piped or command.apart)
        if name == "set":
            continue
        if name not in _ENVIRONMENT or command.redirections or not simple:
            return None
        words = [word.raw for word in (*command.assignments, *command.words)]
        lines.append(" ".join(words if command.words else ["export", *words]))
    return lines


def _quote(text: str) -> str:
    """A word of YAML, in a list, too."""
    plain = re.fullmatch(r"[\w./~$-][\w./~$= +-]*", text)
    return text if plain else "'" + text.replace("'", "''") + "'"
