"""``sh``: a shell, or a command, on a node of a running job, beside its ranks."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from jobgen.app.array_elements import find_run, narrow_run
from jobgen.app.program_parts import describe_missing_rank, require_parts
from jobgen.errors import JobgenError, Unreachable, Usage
from jobgen.model.record import JobState
from jobgen.model.sweep_arrays import find_element_jobs
from jobgen.named_tuple import NamedTuple
from jobgen.shell import Command, Result, build_script
from jobgen.submission import scripts, wire

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobgen.app.world import World
    from jobgen.model.record import Login, RunRecord
    from jobgen.scheduler import Allocation, Scheduler
    from jobgen.transport import Transport

UNLIMITED = 365 * 24 * 3600.0
"""Seconds that a command may take which nobody waits for at a terminal."""
_PIDS = r"""
cd "$1" 2>/dev/null && ls -1t
"""
# the newest file first: a rank may have moved to another node at a restart
_RANK_FILE = re.compile(
    r"(?:(?P<part>[A-Za-z][\w-]*)@)?(?P<node>[A-Za-z0-9][\w.-]*)\.(?P<rank>\d{1,7})", re.ASCII
)
# srun does not notice that nobody reads its output any more until it writes some
_END = r"""
pids=$(pgrep -u "$(id -u)" -f -- "--job-name=$1 ") && kill $pids
"""


class NodeChoice(NamedTuple):
    """Which node of a run is meant; the first one where nothing is named."""

    ref: str
    node: str = ""
    rank: int | None = None
    group: str = ""


class StartedRank(NamedTuple):
    """A rank that has started, and where."""

    node: str
    rank: int
    part: str = ""
    """Its step or group; empty in a job with one program."""

    @property
    def file(self) -> str:
        """The name of the file that holds its process id."""
        return f"{self.part}@{self.node}.{self.rank}" if self.part else f"{self.node}.{self.rank}"


class RunNode(NamedTuple):
    """A node of a running job."""

    record: RunRecord
    """Of the element alone, if the run is an array."""
    task: str
    """The name of its folders in the run directory."""
    allocation: Allocation
    node: str
    beside: StartedRank | None
    """The rank that was named, else the lowest of the node; None if none has started there."""

    @property
    def rank(self) -> int | None:
        """The number of that rank."""
        return self.beside.rank if self.beside else None

    @property
    def rank_file(self) -> str:
        """The file that holds the process id of the rank."""
        name = self.beside.file if self.beside else "none"
        return f"{self.record.directory}/state/{self.task}/pids/{name}"


class Outcome(NamedTuple):
    """What a command on a node printed, and its exit code."""

    node: RunNode
    result: Result


def find_node(world: World, transport: Transport, choice: NodeChoice) -> RunNode:
    """The node of a running job that is meant. Raises Usage, Missing, JobgenError."""
    from jobgen.app.jobs import observe
    from jobgen.scheduler import get_scheduler

    record, elements = find_run(world, choice.ref)
    require_one(record, elements)
    record = observe(world, transport, (record,))[0]
    narrowed = narrow_run(record, elements)
    require_running(narrowed)
    job = find_element_jobs(record, elements)[0] if elements else record.job
    assert job is not None  # noqa: S101  it runs
    task = str(elements[0]) if elements else "0"
    scheduler = get_scheduler(record.site)
    question = {"where": scheduler.find_allocations(job)}
    answer = transport.call(scripts.command(question), deadline=scripts.DEADLINE)
    allocations = _read_allocations(narrowed, scheduler, answer)
    ranks = list_ranks(transport, f"{record.directory}/state/{task}/pids")
    node, beside = choose_node(narrowed, [n for a in allocations for n in a.nodes], ranks, choice)
    allocation = next(a for a in allocations if node in a.nodes)._replace(cluster=job.cluster)
    return RunNode(narrowed, task, allocation, node, beside)


def require_one(record: RunRecord, elements: Sequence[int]) -> None:
    """Raise Usage unless one job is meant: of an array, one element."""
    if len(elements) > 1 or (record.shape.get("elements") and not elements):
        message = f"{record.alias} is a job array: name one element"
        indexes = str(record.shape.get("array", "")).partition("%")[0]
        raise Usage(message, hint=f"its elements: {indexes or 'see jobgen show'}")


def require_running(record: RunRecord) -> None:
    """Raise JobgenError for a run that has no nodes, or whose programs stand still."""
    from jobgen.app.jobs import describe_state

    if record.state is JobState.RUNNING:
        return
    if record.ended:
        hint = f"its output: jobgen logs {record.alias}"
        raise JobgenError(f"{record.alias} has ended: {describe_state(record)}", hint=hint)
    hint = f"see when it starts: jobgen show {record.alias}"
    raise JobgenError(f"{record.alias} does not run: {describe_state(record)}", hint=hint)


def _read_allocations(
    record: RunRecord, scheduler: Scheduler, answer: Result
) -> tuple[Allocation, ...]:
    try:
        frames = wire.index(wire.split_frames(answer.out))
        result = wire.read_answer(frames, "where")
    except wire.GarbledError:
        result = Result(255)
    allocations = scheduler.parse_allocations(result)
    if allocations is None:
        site = record.site.cluster
        raise Unreachable(f"{site}: the scheduler does not answer", hint="run it again later")
    if not any(allocation.nodes for allocation in allocations):
        raise JobgenError(f"{record.alias} has just ended, or its nodes are not known yet")
    return allocations


def list_ranks(transport: Transport, folder: str) -> list[StartedRank]:
    """The ranks that have started, the newest first."""
    names = transport.call(build_script(_PIDS, folder)).text.split("\n")
    matches = [match for name in names if (match := _RANK_FILE.fullmatch(name))]
    return [StartedRank(m["node"], int(m["rank"]), m["part"] or "") for m in matches]


def choose_node(
    record: RunRecord, nodes: Sequence[str], ranks: Sequence[StartedRank], choice: NodeChoice
) -> tuple[str, StartedRank | None]:
    """The node that is meant, and the rank: the lowest of the node where none was named."""
    if choice.group:
        (group,) = require_parts(record, choice.group)
        ranks = [each for each in ranks if each.part == group]
    if choice.rank is not None:
        homes = [each for each in ranks if each.rank == choice.rank and each.node in nodes]
        if not homes:
            raise _refuse_rank(record, choice.rank, choice.group)
        _require_one_group(record, choice.rank, homes)
        if choice.node not in ("", homes[0].node):
            place = f"{homes[0].node}, not on {choice.node}"
            raise Usage(f"rank {choice.rank} of {record.alias} is on {place}")
        return homes[0].node, homes[0]
    if choice.node and choice.node not in nodes:
        some = ", ".join(nodes[:3]) + (f" and {len(nodes) - 3} more" if len(nodes) > 3 else "")
        raise Usage(f"{choice.node} is not a node of {record.alias}", hint=f"its nodes: {some}")
    if choice.group:
        here = [each for each in ranks if each.node in (choice.node or nodes)]
        if not here:
            raise _refuse_group(record, choice)
        lowest = min(here, key=lambda each: each.rank)
        return lowest.node, lowest
    node = choice.node or nodes[0]
    here = [each for each in ranks if each.node == node]
    return node, min(here, key=lambda each: each.rank, default=None)


def _require_one_group(record: RunRecord, rank: int, homes: Sequence[StartedRank]) -> None:
    """Raise Usage if several groups have this rank."""
    groups = sorted({home.part for home in homes}, key=[*record.steps, ""].index)
    if len(groups) > 1 and record.part_kind == "group":
        raise Usage(
            f"rank {rank} of {record.alias} is in several groups: {', '.join(groups)}",
            hint=f"name the group: --group {groups[0]} --rank {rank}",
        )


def _refuse_group(record: RunRecord, choice: NodeChoice) -> JobgenError:
    where = f" on {choice.node}" if choice.node else ""
    hint = f"see how far it is: jobgen show {record.alias}"
    message = f"group {choice.group} of {record.alias} has not started{where}"
    return JobgenError(message, hint=hint)


def _refuse_rank(record: RunRecord, rank: int, group: str) -> JobgenError:
    if missing := describe_missing_rank(record, rank, [group] if group else ()):
        return Usage(missing)
    whose = f"group {group} of {record.alias}" if group else record.alias
    hint = f"name a node instead: jobgen sh {record.alias} --node NAME"
    return JobgenError(f"rank {rank} of {whose} has not started yet", hint=hint)


def enter_shell(world: World, choice: NodeChoice, words: Sequence[str], *, tty: bool) -> int:
    """The exit code of a command on a node of a run, or of a shell, at our standard streams.

    Raises Usage, Missing, JobgenError, Unreachable.
    """
    name = f"jobgen-sh-{secrets.token_hex(6)}"
    with world.connect(find_login(world, choice)) as transport:
        node = find_node(world, transport, choice)
        if tty:
            world.say(describe_node(node))
        step = build_step(world, node, words, tty=tty, name=name)
        try:
            return transport.run_interactively(f"exec {step}", tty=tty)
        except BaseException:
            if node.record.site.scheduler != "local":
                with suppress(Unreachable):
                    transport.call(build_script(_END, name))
            raise


def run_command(world: World, choice: NodeChoice, words: Sequence[str]) -> Outcome:
    """Run a command on a node of a run, with nothing to read, and keep what it printed."""
    with world.connect(find_login(world, choice)) as transport:
        node = find_node(world, transport, choice)
        step = build_step(world, node, words, tty=False, name="jobgen-sh")
        return Outcome(node, transport.call(str(step), deadline=UNLIMITED))


def find_login(world: World, choice: NodeChoice) -> Login:
    """How to get to the cluster of a run. Raises Usage, Missing."""
    return find_run(world, choice.ref)[0].site.login


def build_step(
    world: World, node: RunNode, words: Sequence[str], *, tty: bool, name: str
) -> Command:
    """The command that runs these words, or a shell, on a node as its rank does."""
    from jobgen.payload import text
    from jobgen.scheduler import get_scheduler

    record = node.record
    runtime = find_runtime(world.ledger.get_bundle(record.token))
    label = f"{record.alias} {node.node}"
    head = ("bash", "-c", text("attach.sh"), "attach.sh", text("beside_rank.sh"))
    command = Command((*head, record.directory, node.rank_file, runtime, label, *words))
    scheduler = get_scheduler(record.site)
    return scheduler.start_step(node.allocation, node.node, command, tty=tty, name=name)


def find_runtime(bundle: Mapping[str, bytes]) -> str:
    """What the run's containers are run by; empty without one."""
    try:
        container = json.loads(bundle.get("plan.json", b"{}"))["container"]
        return str(container["runtime"])
    except (ValueError, KeyError, TypeError):
        return ""


def describe_node(node: RunNode) -> str:
    """``llama-3 on n2, beside rank 8 of group serve``."""
    beside = "before any rank has started there"
    if node.beside is not None:
        beside = f"beside rank {node.beside.rank}"
        beside += f" of {node.record.part_kind} {node.beside.part}" if node.beside.part else ""
    return f"{node.record.alias} on {node.node}, {beside}"
