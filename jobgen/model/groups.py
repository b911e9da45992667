"""``groups:`` of a job: programs that run at the same time, each on nodes of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from jobgen.model.components import OPTIONS as OWN_OPTIONS
from jobgen.model.fields import (
    DURATION,
    LINE,
    MEMORY,
    RUN,
    WORD,
    WORDS,
    check_integer,
    check_line,
    check_shell_text,
    describe_value,
    split_extra,
    suggest,
)
from jobgen.model.form import (
    Check,
    Form,
    Refusal,
    ValueDiagnostic,
    check_form,
    key,
    nest_fault,
    refuse,
)
from jobgen.model.job_checks import OPTIONS
from jobgen.model.program_keys import (
    PROCS_PER_NODE,
    PROGRAM_ENVIRONMENT,
    PROGRAM_IMAGE,
    PROGRAM_LAUNCHER,
    PROGRAM_TRAIN,
    RANKS_PER_GPU,
)
from jobgen.model.settings import Launcher
from jobgen.model.steps import MOST_STEPS, check_part_name
from jobgen.model.train import Train
from jobgen.model.units import Memory, Walltime
from jobgen.wording import join_words

_HINT = "write NAME: {nodes: 1, run: serve.py}, one per line"
_PORT = check_integer(1, 65_535, more="'auto'")
PATIENCE = Walltime(30 * 60)
"""How long the other groups wait for one with ``ready``; a large model loads for minutes."""


def _check_name(value: object) -> str:
    return check_part_name(value, "group")


_NAME = Check(_check_name, WORD)


def _check_port(value: object) -> int | Literal["auto"]:
    return "auto" if value == "auto" else _PORT(value)


def _check_file(value: object) -> str:
    word = check_shell_text(check_line(value))
    if word.startswith("~"):
        raise refuse("J135", f"'{word}' starts with ~", "write $HOME in its place")
    return word


class Ready(Form):
    """When a group is ready, so that the groups after it may start."""

    port: int | Literal["auto"] | None = key(
        Check(_check_port, {"anyOf": [{"const": "auto"}, dict(_PORT.schema)]}),
        default=None,
        doc="A TCP port of its first node accepts connections; auto: $JOBGEN_PORT_NAME.",
        example="8000",
    )
    file: str | None = key(
        Check(_check_file, {"type": "string"}),
        default=None,
        doc="This file has appeared or changed: a path in the workdir, or an absolute one.",
    )
    command: str | None = key(
        RUN,
        default=None,
        doc="This command exits with 0 on the job's first node, after setup, outside a container.",
        example="ray status",
    )
    timeout: Walltime = key(
        DURATION, default=PATIENCE, doc="How long to wait; then the job ends with exit code 124."
    )


def _check_ready(value: object) -> Ready:
    if value is not None and not isinstance(value, (Mapping, Ready)):
        is_port = isinstance(value, int) or value == "auto"
        word = getattr(value, "text", value) if is_port else "8000"
        message = f"expected a mapping, got {describe_value(value)}"
        raise refuse("J120", message, f"such as {{port: {word}}}, {{file: PATH}} or {{command: …}}")
    return _READY(value)


_READY = check_form(Ready)


class JobGroup(Form):
    """One program of several that run at the same time: what differs from the job's own keys."""

    name: str = key(_NAME, default="", doc="Its name.", hidden=True)
    run: str = key(RUN, doc="The command, as run at the top of the file.", example="serve.py")
    nodes: int | None = key(
        check_integer(1, 65_536),
        default=None,
        doc="Number of nodes of its own; with on, the first so many nodes of that group.",
    )
    on: str | None = key(
        _NAME,
        default=None,
        doc="Run beside this group on its nodes; GPUs only if gpus_per_node says how many.",
    )
    until: str | None = key(
        _NAME,
        default=None,
        doc="Start before this group, and be stopped when it ends; an earlier end is a failure.",
    )
    ready: Ready | None = key(
        Check(_check_ready, _READY.schema),
        default=None,
        doc="What the groups that start later wait for.",
    )
    gpus_per_node: int | None = key(
        check_integer(0, 1024), default=None, doc="GPUs per node; default: the job's."
    )
    procs_per_node: int | None = PROCS_PER_NODE
    ranks_per_gpu: int | None = RANKS_PER_GPU
    cpus_per_task: int | None = key(
        check_integer(1, 4096), default=None, doc="CPU cores per rank; default: the job's."
    )
    cluster: str | None = key(
        LINE,
        default=None,
        doc="Profile of this group's nodes, where they are others of the same cluster.",
        example="mycluster-cpu",
    )
    mem: Memory | None = key(MEMORY, default=None, doc="Memory per node; default: the job's.")
    slurm: Mapping[str, str | None] = key(
        OPTIONS,
        default={},
        doc=(
            "sbatch options about the nodes of this group, such as partition and constraint, in "
            "place of the job's."
        ),
        example="{partition: cpu}",
    )
    slurm_extra: tuple[str, ...] = key(WORDS, default=(), doc="Words of slurm.extra.", hidden=True)
    launcher: Launcher | None = PROGRAM_LAUNCHER
    container: str | None = PROGRAM_IMAGE
    env: Mapping[str, str] = PROGRAM_ENVIRONMENT
    train: Train | None = PROGRAM_TRAIN

    @classmethod
    def spread(cls, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """``slurm: {extra: …}`` is two values."""
        return split_extra(data)


def name_variable(group: str) -> str:
    """The end of the names of a group's variables: ``RAY_HEAD`` for ``ray-head``."""
    return group.upper().replace("-", "_")


def count_nodes(groups: object) -> int | None:
    """The nodes of all groups together; None if that cannot be known."""
    if not isinstance(groups, Mapping):
        return None
    total = 0
    for group in groups.values():
        if not isinstance(group, Mapping):
            return None
        if group.get("on") is None:
            nodes = group.get("nodes")
            if not isinstance(nodes, int) or isinstance(nodes, bool):
                return None
            total += nodes
    return total


def check_groups(value: object) -> tuple[JobGroup, ...]:
    """The groups in their order, whose references to each other hold."""
    if isinstance(value, tuple) and all(isinstance(each, JobGroup) for each in value):
        return value
    if not isinstance(value, Mapping) or not value:
        got = "an empty one" if value == {} else describe_value(value)
        raise refuse("J120", f"expected a mapping of groups, got {got}", _HINT)
    if len(value) > MOST_STEPS:
        raise refuse("J120", f"{len(value)} groups, but at most {MOST_STEPS} are supported")
    groups: list[JobGroup] = []
    faults: list[ValueDiagnostic] = []
    for name, each in value.items():
        try:
            groups.append(_check_group(name, each))
        except Refusal as refusal:
            faults += [nest_fault(fault, str(name)) for fault in refusal.faults]
    faults = faults or [*_check_references(groups)]
    if faults:
        raise Refusal(faults)
    return tuple(groups)


def _check_group(name: object, value: object) -> JobGroup:
    """One group. Raises Refusal."""
    checked = _check_name(name)
    if isinstance(value, Mapping) and "name" in value:
        message = "a group has its name before the colon"
        raise Refusal([ValueDiagnostic("J120", message, "remove it", ("name",), about_key=True)])
    group = check_form(JobGroup)(value)
    faults = [*_check_options(group)]
    if faults:
        raise Refusal(faults)
    if group.nodes is None and group.on is None:
        hint = "add nodes: 1, or on: GROUP to share another group's nodes"
        raise Refusal([ValueDiagnostic("J116", "is missing", hint, ("nodes",), about_key=True)])
    ready = group.ready
    if ready and [ready.port, ready.file, ready.command].count(None) != 2:
        message = "ready needs exactly one of port, file and command"
        raise Refusal([ValueDiagnostic("J120", message, "for example {port: 8000}", ("ready",))])
    return group.replace(name=checked)


def _check_options(group: JobGroup) -> Iterator[ValueDiagnostic]:
    """Options that are not about the nodes of this group alone."""
    for name in sorted(group.slurm.keys() - OWN_OPTIONS):
        message = f"{name} holds for all groups"
        hint = f"write slurm: {{{name}: …}} at the top of the file"
        yield ValueDiagnostic("J299", message, hint, ("slurm", name), about_key=True)
    own = {"slurm": group.slurm or group.slurm_extra, "mem": group.mem, "cluster": group.cluster}
    for key_, value in own.items():
        if group.on and value:
            message = f"the group runs on the nodes of '{group.on}'"
            hint = f"move {key_} to {group.on}"
            yield ValueDiagnostic("J299", message, hint, (key_,), about_key=True)


def _check_references(groups: list[JobGroup]) -> Iterator[ValueDiagnostic]:
    """What is wrong with ``on``, ``until``, and names."""
    named = {group.name: group for group in groups}
    variables: dict[str, str] = {}
    for group in groups:
        other = variables.setdefault(name_variable(group.name), group.name)
        if other != group.name:
            message = f"'{other}' and '{group.name}' have the same variables"
            yield ValueDiagnostic("J120", message, "give one another name", (group.name,))
        for word, target in (("on", group.on), ("until", group.until)):
            if target == group.name or (target is not None and target not in named):
                others = [name for name in named if name != group.name]
                message = f"no other group is called '{target}'"
                hint = suggest(target, others, "groups")
                yield ValueDiagnostic("J120", message, hint, (group.name, word))
        yield from _check_shared(group, named)
        circle = _list_circle(group, named)
        if group.name == min(circle, default=""):
            steps = [f"'{one}' runs until '{named[one].until}'" for one in circle]
            message = f"{join_words(steps, 'and')}: none of them ends first"
            hint = "remove one until: that group decides when the job ends"
            yield ValueDiagnostic("J120", message, hint, (group.name, "until"))


def _check_shared(group: JobGroup, named: Mapping[str, JobGroup]) -> Iterator[ValueDiagnostic]:
    """A group on the nodes of another one."""
    host = named.get(group.on or "")
    if host is None:
        return
    if host.on is not None:
        message = f"'{host.name}' has no nodes of its own"
        hint = f"write on: {host.on}"
        if host.on == group.name:
            hint = f"give one of them nodes of its own, such as {group.name}: {{nodes: 1}}"
        yield ValueDiagnostic("J120", message, hint, (group.name, "on"))
    elif group.nodes is not None and host.nodes is not None and group.nodes > host.nodes:
        message = f"{group.nodes}, but '{host.name}' has {host.nodes}"
        hint = f"use {host.nodes} or fewer"
        yield ValueDiagnostic("J122", message, hint, (group.name, "nodes"))


def _list_circle(group: JobGroup, named: Mapping[str, JobGroup]) -> list[str]:
    """The groups that this one runs until, if they lead back to it; itself first."""
    here, seen = group.name, list[str]()
    while here in named and here not in seen:
        seen.append(here)
        here = named[here].until or ""
    return seen if here == group.name else []


GROUPS = Check(check_groups, {"type": "object", "additionalProperties": {"form": JobGroup}})
