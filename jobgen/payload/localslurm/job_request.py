"""Options of sbatch → the request; and whether this machine can ever run it."""

from __future__ import annotations

import os
import pwd
import re
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import dependency, environment, times
from .errors import CommandError, invalid, submission
from .records import Request
from .store import Store

_SIGNAL = re.compile(r"(?:([RB]{1,2}):)?(?:SIG)?([A-Z]+\d?|\d+)(?:@(\d{1,5}))?", re.IGNORECASE)
_GPUS = ("gres", "gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket")
_UMASK_OF_ALL = 0o077


def build_request(
    store: Store, wanted: Mapping[str, str], command: str, arguments: Sequence[str]
) -> Request:
    """The request with a new id. Raises Refused for a value that cannot be read."""
    submit_directory = str(Path.cwd())
    nodes, per_node = _nodes(wanted), _count(wanted, "ntasks-per-node")
    ntasks = _count(wanted, "ntasks") or (nodes * per_node if per_node else None)
    array = wanted.get("array")
    if array is not None:
        note = "sbatch: error: the local cluster runs no job arrays"
        reason = "Invalid job array specification"
        raise CommandError(note, *submission(reason).lines)
    export = wanted.get("export", "")
    return Request(
        id=store.next_id(),
        name=wanted.get("job-name") or (Path(command).name if command else "wrap"),
        nodes=nodes,
        directory=str(Path(submit_directory, wanted.get("chdir", ""))),
        submit_directory=submit_directory,
        command=command,
        arguments=list(arguments),
        submitted=time.time(),
        user=pwd.getpwuid(os.getuid()).pw_name,
        ntasks=ntasks,
        ntasks_per_node=per_node,
        cpus_per_task=_count(wanted, "cpus-per-task"),
        limit=_limit(wanted),
        output=wanted.get("output", ""),
        error=wanted.get("error", ""),
        input=wanted.get("input", ""),
        append=_append(wanted),
        umask=_umask(),
        comment=wanted.get("comment", ""),
        partition=wanted.get("partition", "local"),
        account=wanted.get("account", ""),
        qos=wanted.get("qos", ""),
        dependency=_dependency(store, wanted.get("dependency", "")),
        kill_invalid=wanted.get("kill-on-invalid-dep") == "yes",
        begin=_begin(wanted),
        hold="hold" in wanted,
        requeue="no-requeue" not in wanted or "requeue" in wanted,
        warning=_warning(wanted),
        export=export,
        environment=environment.captured(export, os.environ),
        path=environment.path(export, os.environ),
    )


def check_feasible(store: Store, asked: Request) -> None:
    """Refuse a request that could never start."""
    nodes = store.settings().nodes
    if asked.nodes > nodes:
        file = store.root / "slurm.conf"
        has = "1 node" if nodes == 1 else f"{nodes} nodes"
        note = f"sbatch: note: the local cluster has {has}; Nodes={asked.nodes} in {file}"
        refusal = submission("Requested node configuration is not available")
        raise CommandError(f"{note} would change that", *refusal.lines)


def _nodes(wanted: Mapping[str, str]) -> int:
    """The most nodes of ``N`` or ``MIN-MAX``: a simulated node is always to be had."""
    text = wanted.get("nodes", "1")
    match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", text)
    if not match:
        raise invalid("sbatch", f'"{text}" is not a valid node count')
    low, high = int(match.group(1)), int(match.group(2) or match.group(1))
    if low > high:
        text = f"Maximum node count {high} is less than minimum node count {low}"
        raise CommandError(f"sbatch: error: {text}")
    if high == 0:
        raise submission("Node count specification invalid")
    if any(_asks_gpus(wanted.get(name, "")) for name in _GPUS):
        raise submission("Invalid generic resource (gres) specification")
    return high


def _asks_gpus(value: str) -> bool:
    return value not in ("", "0", "none", "NONE", "gpu:0")


def _count(wanted: Mapping[str, str], name: str) -> int | None:
    text = wanted.get(name)
    if text is None:
        return None
    if not text.isdigit() or int(text) == 0:
        raise CommandError(f'sbatch: error: Invalid numeric value "{text}" for --{name}.')
    return int(text)


def _limit(wanted: Mapping[str, str]) -> int | None:
    try:
        return times.limit(wanted.get("time", "UNLIMITED"))
    except ValueError:
        raise invalid("sbatch", "Invalid --time specification") from None


def _begin(wanted: Mapping[str, str]) -> float:
    if "begin" not in wanted:
        return 0.0
    try:
        return times.begin(wanted["begin"], time.time())
    except ValueError:
        raise invalid("sbatch", "Invalid --begin specification") from None


def _append(wanted: Mapping[str, str]) -> bool:
    mode = wanted.get("open-mode", "truncate")
    if mode not in ("a", "append", "t", "truncate"):
        raise invalid("sbatch", "Invalid --open-mode specification")
    return mode.startswith("a")


def _warning(wanted: Mapping[str, str]) -> list[int]:
    text = wanted.get("signal")
    if text is None:
        return []
    match = _SIGNAL.fullmatch(text)
    number = signal_number(match.group(2)) if match else None
    if match is None or number is None:
        raise invalid("sbatch", "Invalid --signal specification")
    return [number, int(match.group(3) or 60), int("B" in (match.group(1) or "").upper())]


def signal_number(text: str) -> int | None:
    """The number of ``USR1``, ``SIGUSR1`` or ``10``; None for what is none."""
    if text.isdigit():
        return int(text) if 0 < int(text) < signal.NSIG else None
    name = f"SIG{text.upper().removeprefix('SIG')}"
    return signal.Signals[name].value if name in signal.Signals.__members__ else None


def _dependency(store: Store, text: str) -> str:
    try:
        needs, _ = dependency.read(text)
    except ValueError:
        raise submission("Job dependency problem") from None
    if any(need.job and store.job(need.job) is None for need in needs):
        raise submission("Job dependency problem")
    return text


def _umask() -> int:
    now = os.umask(_UMASK_OF_ALL)
    os.umask(now)
    return now
