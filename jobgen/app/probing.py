"""A job of two minutes that looks at a node: submitted, waited for, read back, cleaned up."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from jobgen.errors import Diagnostic, JobgenError, Refused, TimedOut, Unreachable
from jobgen.named_tuple import NamedTuple
from jobgen.payload import text
from jobgen.shell import Raw, join, quote_expandable, split_lines
from jobgen.submission import wire
from jobgen.survey.node_profile import Probe, probe
from jobgen.transport import Payload

if TYPE_CHECKING:
    from jobgen.app.world import World
    from jobgen.survey.choice import Choice
    from jobgen.transport import Transport

PATIENCE = 600.0
"""Seconds that the job may wait and run where nobody says otherwise."""
_PAUSES = (0.5, 1.0, 1.0, 2.0, 2.0, 5.0)
"""Seconds between looks; the last for all later ones. squeue asks the controller each time."""
_GRACE = 5.0
"""Seconds after the job's end in which its answer may still come into sight, over NFS."""
_ENDED = frozenset(
    {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY"}
    | {"DEADLINE", "PREEMPTED"}
)


class Order(NamedTuple):
    """The job to be submitted."""

    root: str
    """Where its folder is made; ``$NAME`` expands over there."""
    options: tuple[str, ...]
    """Words for sbatch."""
    hosts: tuple[str, ...]
    """Names of other machines: the way to them is the training's way."""


def build_order(
    choice: Choice, root: str, login_host: str, slurm: Sequence[tuple[str, str]]
) -> Order:
    """The job for this kind of node: one node, all of its GPUs, two minutes."""
    kind = choice.kind
    words = [f"--{name}={value}" for name, value in slurm]
    gres = f"gpu:{kind.gpu_type}:{kind.gpus}" if kind.gpu_type else f"gpu:{kind.gpus}"
    options = (
        *("--parsable", "--job-name=jobgen-probe", "--nodes=1", "--ntasks=1", "--time=2"),
        *("--no-requeue", *words),
        *([f"--gres={gres}"] if kind.gpus else []),
    )
    others = kind.nodes[:2] if len(kind.nodes) > 1 else ()
    return Order(root, options, (*others, login_host))


def run(
    transport: Transport,
    asked: Order,
    world: World,
    *,
    patience: float = PATIENCE,
    say: Callable[[str], None],
) -> Probe:
    """The node's answers. Raises Refused, TimedOut, or JobgenError where the job gave none.

    Whatever happens, the job is cancelled and its folder removed.
    """
    folder, job = _start(transport, asked)
    say(f"job {job} was submitted: {' '.join(asked.options[1:])}")
    try:
        answer, last = _wait(transport, folder, job, world, patience=patience, say=say)
    except BaseException:
        _end(transport, asked, folder, job)
        raise
    said = _end(transport, asked, folder, "" if answer else job)
    if answer is None and last not in _ENDED and last:
        message = f"job {job} is still {last} after {patience:.0f} s, and was cancelled"
        hint = "--wait 2h waits longer; --no-probe writes what the login host tells"
        raise TimedOut(Diagnostic("J414", message, hint=hint))
    found = None if answer is None else _read(answer)
    if found is None:
        end = "\n".join(split_lines(said.strip())[-5:])
        message = f"job {job} left no answer in {folder}" + (f"\n{end}" if end else "")
        hint = "do the nodes see that folder? --root DIR names another; --no-probe goes without"
        raise JobgenError(Diagnostic("J415", message, hint=hint))
    return found


def _start(transport: Transport, asked: Order) -> tuple[str, str]:
    """The job's folder and id. Raises Refused with Slurm's own words."""
    script = text("probe.sh").encode()
    root = Raw(quote_expandable(asked.root))
    words = ["probe_start", root, secrets.token_hex(4), " ".join(asked.hosts), *asked.options]
    told = _told(transport, join(words), Payload(len(script), [script]))
    if "failed" in told:
        message = f"the probe's folder cannot be made: {told['failed'].strip()}"
        raise JobgenError(Diagnostic("J415", message, hint="--root DIR names another place"))
    answer = wire.read_answer(told, "sbatch")
    job = split_lines(answer.text.strip())[-1:] or [""]
    number = job[0].partition(";")[0]
    folder = told.get("folder", "")
    if not (number.isascii() and number.isdigit()):
        _end(transport, asked, folder, "")
        said = (answer.error_text or answer.text).strip() or f"exit code {answer.code}"
        message = f"Slurm refused the job that looks at a node\n{said}"
        hint = (
            "--account, --partition and --qos choose; --no-probe writes what the login host tells"
        )
        raise Refused(Diagnostic("J413", message, hint=hint))
    return folder, number


def _wait(
    transport: Transport,
    folder: str,
    job: str,
    world: World,
    *,
    patience: float,
    say: Callable[[str], None],
) -> tuple[str | None, str]:
    """The answer, and the job's last state; None where it ended, or the time is over."""
    begun, ended, before = world.now(), 0.0, ""
    for number in range(1_000_000):
        told = _told(transport, join(["probe_look", folder, job]))
        if "answer" in told:
            return told["answer"], "COMPLETED"
        state, reason, node = _state(told)
        if (shown := " ".join(filter(None, (state.lower(), reason, node)))) != before:
            say(f"job {job}: {shown or 'gone'}")
            before = shown
        ended = ended or (world.now() if not state or state in _ENDED else 0.0)
        if (ended and world.now() - ended > _GRACE) or world.now() - begun > patience:
            return None, state
        world.sleep(_PAUSES[min(number, len(_PAUSES) - 1)])
    return None, ""


def _state(told: dict[str, str]) -> tuple[str, str, str]:
    """State, reason and node of squeue's last row; empty where the job is gone."""
    answer = wire.read_answer(told, "queue")
    rows = [row for line in split_lines(answer.text) if len(row := line.split("|")) == 3]
    if not rows:
        return ("UNKNOWN" if answer.code == 124 else ""), "", ""
    state, reason, node = (word.strip() for word in rows[-1])
    return state, "" if reason == "None" else reason, node


def _end(transport: Transport, asked: Order, folder: str, job: str) -> str:
    """Clean up; what the job printed. A lost connection is not made worse by it."""
    try:
        root = Raw(quote_expandable(asked.root))
        return _told(transport, join(["probe_end", folder, job, root])).get("said", "")
    except JobgenError:
        return ""


def _told(transport: Transport, call: str, payload: Payload | None = None) -> dict[str, str]:
    script = "\n".join([text("common.sh"), text("probe_job.sh"), "clean_environment", call, ""])
    result = transport.call(script, payload, deadline=75.0)
    try:
        return wire.index(wire.split_frames(result.out))
    except wire.GarbledError as error:
        message = "the login host's answer cannot be read"
        raise Unreachable(Diagnostic("J412", message, hint="try again")) from error


def _read(answer: str) -> Probe | None:
    try:
        return probe(wire.split_frames(answer.encode() + b"\n"))
    except wire.GarbledError:
        return None
