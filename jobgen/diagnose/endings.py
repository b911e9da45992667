"""How processes ended, as launchers and Slurm report it in a log without an event record."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from jobgen.diagnose.log_lines import LogLine, ProcessLog
from jobgen.named_tuple import NamedTuple


class Ending(NamedTuple):
    """One report of a launcher that a process ended badly."""

    rank: int | None
    node: str
    code: int
    """128 and the signal's number if a signal ended it; 0 if only the signal is not known."""
    signal: int
    line: LogLine
    path: str
    first: bool = False
    """Whether the launcher names it as the first failure."""


_SIGNALS = {
    "Killed": 9,
    "Terminated": 15,
    "Aborted": 6,
    "Segmentation fault": 11,
    "Bus error": 7,
    "Illegal instruction": 4,
    "Floating point exception": 8,
    "Interrupt": 2,
    "Out Of Memory": 9,
}
_NAMES = "|".join(_SIGNALS)
_SRUN = re.compile(
    r"srun: error: (?P<node>[\w.-]+): tasks? (?P<tasks>[\d,-]+): "
    rf"(?:Exited with exit code (?P<code>\d+)|(?P<name>{_NAMES}))"
)
_AGENT = re.compile(r"failed \(exitcode: (?P<code>-?\d+)\) local_rank: (?P<local>\d+)")
_ROOT = re.compile(r"Root Cause \(first observed failure\)")
_FIELD = re.compile(r"^ {2}(?P<key>time|host|rank|exitcode) *: (?P<value>.*)")
_MPIRUN = re.compile(
    r"process rank (?P<rank>\d+) with PID \d+ on node (?P<node>[\w.-]+) "
    r"exited on signal (?P<signal>\d+)"
)
_LIGHTNING = re.compile(
    r"\[rank: (?P<rank>\d+)\] Child process with PID \d+ terminated with code (?P<code>-?\d+)"
)
_OTHERS = re.compile(
    r"exits with return code = (?P<ds>-?\d+)"
    r"|returned non-zero exit status (?P<status>\d+)"
    r"|died with <Signals\.(?P<died>\w+): (?P<number>\d+)>"
    rf"|^\S*: line \d+: +\d+ (?P<bash>{_NAMES})"
)


def list_endings(streams: Iterable[ProcessLog]) -> list[Ending]:
    """All reports, in the order of their lines."""
    found = [ending for stream in streams for ending in _read_stream(stream)]
    return sorted(found, key=lambda ending: (not ending.first, ending.path, ending.line.order))


def _read_stream(stream: ProcessLog) -> list[Ending]:
    launched = any("elastic" in line.text for line in stream.lines)
    endings = [*_read_summaries(stream)]
    for line in stream.lines:
        endings += _read_line(line, stream, per_rank=not launched)
    return endings


def _read_line(line: LogLine, stream: ProcessLog, *, per_rank: bool) -> list[Ending]:
    text = line.text
    if (srun := _SRUN.search(text)) is not None:
        code = int(srun["code"]) if srun["code"] else -_SIGNALS[srun["name"]]
        tasks = _read_tasks(srun["tasks"]) if per_rank else [None]
        return [Ending(task, srun["node"], *_split(code), line, stream.path) for task in tasks]
    if (mpi := _MPIRUN.search(text)) is not None:
        signal = int(mpi["signal"])
        return [Ending(int(mpi["rank"]), mpi["node"], 128 + signal, signal, line, stream.path)]
    if (child := _LIGHTNING.search(text)) is not None:
        return [Ending(int(child["rank"]), "", *_split(int(child["code"])), line, stream.path)]
    if (agent := _AGENT.search(text)) is not None:
        return [Ending(None, stream.origin.node, *_split(int(agent["code"])), line, stream.path)]
    if (other := _OTHERS.search(text)) is not None:
        number = int(other["number"] or _SIGNALS.get(other["bash"] or "", 1))
        ended = int(other["ds"] or other["status"] or -number)
        return [Ending(None, stream.origin.node, *_split(ended), line, stream.path)]
    return []


def _split(code: int) -> tuple[int, int]:
    """An exit code and its signal: -9, 137 and SIGKILL are the same end."""
    if code < 0:
        return 128 - code, -code
    return (code, code - 128) if 128 < code < 160 else (code, 0)


def _read_tasks(text: str) -> Sequence[int | None]:
    """``0-2,5`` → 0, 1, 2, 5; at most a few of many."""
    tasks: list[int] = []
    for part in text.split(","):
        low, _, high = part.partition("-")
        if low.isdigit():
            tasks += range(int(low), int(high or low) + 1 if (high or low).isdigit() else int(low))
    return tasks[:64] or [None]


def _read_summaries(stream: ProcessLog) -> Iterable[Ending]:
    """torchrun's table: the first failure, and the others before it."""
    fields: dict[str, str] = {}
    root, line = False, None
    for each in stream.lines:
        field = _FIELD.match(each.text)
        if _ROOT.search(each.text):
            root, fields = True, {}
        elif field and field["key"] == "time":
            fields = {}
        if field:
            fields[field["key"]], line = field["value"], each
        if field and field["key"] == "exitcode" and "rank" in fields and line is not None:
            code = re.match(r"-?\d+", fields["exitcode"])
            rank = re.match(r"\d+", fields["rank"])
            if code and rank:
                who = int(rank[0]), fields.get("host", "").strip()
                yield Ending(*who, *_split(int(code[0])), line, stream.path, first=root)
            root = False
