"""How processes ended, as launchers and Slurm report it in a log without an event record."""

from __future__ import annotations

import re
import signal as signals
from collections.abc import Iterable, Sequence

from jobgen.diagnose.log_lines import LogLine, ProcessLog, read_time
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
    time: float = 0.0
    """When, in seconds of the year; 0 if the launcher does not say."""


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
_AGENT = re.compile(
    r"failed \(exitcode: (?P<code>-?\d+)\) local_rank: (?P<local>\d+)"
    r"|\(local_rank (?P<old_local>\d+)\) FAILED \(exitcode (?P<old_code>-?\d+)\)"
)
"""Of torchrun's agent; the second form is that of PyTorch 1.9 to 1.11."""
_CLOSED = " closing signal SIG"
_ROOT = re.compile(r"Root Cause \(first observed failure\)")
_FIELD = re.compile(r"^ {2}(?P<key>time|host|rank|exitcode) *: (?P<value>.*)")
_MPI = (
    re.compile(
        r".*process rank (?P<rank>\d+) with PID \d+ on node (?P<node>[\w.-]+) "
        r"exited on (?P<way>signal) (?P<number>\d+)"
    ),
    re.compile(
        r"(?P<node>[\w.-]+): rank (?P<rank>\d+) "
        r"(?:exited with|died from) (?P<way>code|signal) (?P<number>\d+)"
    ),
)
"""Of mpirun of Open MPI, and of mpiexec of PALS."""
_PARENTS = re.compile(
    r"\[rank: (?P<lightning>\d+)\] Child process with PID \d+ terminated with code (?P<child>-?\d+)"
    r"|(?:Global r|R)ank (?P<composer>\d+) (?:\(PID \d+\) exited with code|crashed with exit code) "
    r"(?P<crash>-?\d+)"
    r"|\b[Pp]rocess (?P<spawned>\d+) terminated with "
    r"(?:exit code (?P<exit>-?\d+)|signal SIG(?P<signal>\w+)|the following error)"
)
"""Of Lightning, composer, and torch.multiprocessing: processes that are ranks."""
_BOX = re.compile(
    r"=\s+(?:RANK (?P<rank>\d+) )?PID \d+ RUNNING AT (?P<node>[\w.-]+)"
    r"|\s+Process name: \[\[\d+,\d+\],(?P<first>\d+)\]"
)
_BOX_END = re.compile(
    r"=\s+(?:EXIT CODE|KILLED BY SIGNAL): (?P<code>\d+)(?P<name> \()?|\s+Exit code: +(?P<exit>\d+)"
)
"""Of mpiexec of MPICH and Intel MPI, and of mpirun of Open MPI: a box of lines."""
_OTHERS = re.compile(
    r"exits with return code = (?P<ds>-?\d+)"
    r"|returned non-zero exit status (?P<status>\d+)"
    r"|died with <Signals\.(?P<died>\w+): (?P<number>\d+)>"
    rf"|^\S*: line \d+: +\d+ (?P<bash>{_NAMES})"
    r"|finished with exit code (?P<ide>-?\d+)"
    r"|[Ss]ignal (?P<received>\d+) \(SIG\w+\) received by PID \d+"
)
_NODES = re.compile(
    r"--?n?nodes[= ]+(?:\d+:)?(?:[2-9]|1\d)|max_nodes +: (?:[2-9]|1\d)|node_rank[=: ]+[1-9]"
    r"|num_machines[=: ]+(?:[2-9]|1\d)"
)
"""Signs that a job has several nodes."""


def list_endings(streams: Iterable[ProcessLog]) -> list[Ending]:
    """All reports, in the order of their lines."""
    streams = list(streams)
    found = [ending for stream in streams for ending in _read_stream(stream)]
    found = _name_local(found, streams)
    return sorted(found, key=lambda end: (not end.first, end.time, end.path, end.line.order))


def has_closed(streams: Iterable[ProcessLog]) -> bool:
    """Whether torchrun ended processes that had not failed."""
    return any(_CLOSED in line.text for stream in streams for line in stream.lines)


def _name_local(found: list[Ending], streams: Sequence[ProcessLog]) -> list[Ending]:
    """The rank of what torchrun's agent reports, where it names local ranks only: on one node they
    are the ranks."""
    if any(ending.rank is not None for ending in found) or len({e.node for e in found}) > 1:
        return found
    if any(_NODES.search(line.text) for stream in streams for line in stream.lines):
        return found
    agents = [_AGENT.search(ending.line.text) for ending in found]
    return [
        ending._replace(rank=int(agent["local"] or agent["old_local"])) if agent else ending
        for ending, agent in zip(found, agents, strict=True)
    ]


def _read_stream(stream: ProcessLog) -> list[Ending]:
    launched = any("elastic" in line.text for line in stream.lines)
    endings = [*_read_summaries(stream), *_read_boxes(stream)]
    for line in stream.lines:
        endings += _read_line(line, stream, per_rank=not launched)
    return endings


def _read_line(line: LogLine, stream: ProcessLog, *, per_rank: bool) -> list[Ending]:
    text = line.text
    if (srun := _SRUN.search(text)) is not None:
        ended = _split(int(srun["code"]) if srun["code"] else -_SIGNALS[srun["name"]])
        tasks = _read_tasks(srun["tasks"]) if per_rank else [None]
        return [Ending(task, srun["node"], *ended, line, stream.path) for task in tasks]
    mpis = (pattern.match(text) for pattern in _MPI if "rank" in text)
    if (mpi := next(filter(None, mpis), None)) is not None:
        number = int(mpi["number"])
        ended = _split(-number if mpi["way"] == "signal" else number)
        return [Ending(int(mpi["rank"]), mpi["node"], *ended, line, stream.path)]
    if (child := _PARENTS.search(text)) is not None:
        return [_read_child(child, line, stream)]
    if (agent := _AGENT.search(text)) is not None:
        code = int(agent["code"] or agent["old_code"])
        return [Ending(None, stream.origin.node, *_split(code), line, stream.path)]
    if (other := _OTHERS.search(text)) is not None:
        number = int(other["number"] or other["received"] or _SIGNALS.get(other["bash"] or "", 1))
        code = int(other["ds"] or other["status"] or other["ide"] or -number)
        return [Ending(None, stream.origin.node, *_split(code), line, stream.path)]
    return []


def _read_child(child: re.Match[str], line: LogLine, stream: ProcessLog) -> Ending:
    rank = int(child["lightning"] or child["composer"] or child["spawned"])
    code = int(child["child"] or child["crash"] or child["exit"] or 1)
    if name := child["signal"]:
        code = -int(getattr(signals, f"SIG{name}", signals.SIGKILL))
    return Ending(rank, stream.origin.node, *_split(code), line, stream.path)


def _read_boxes(stream: ProcessLog) -> Iterable[Ending]:
    """A box of an MPI launcher: who, and then the code, a signal's where it has a name."""
    who: re.Match[str] | None = None
    for line in stream.lines:
        who = _BOX.match(line.text) or who
        end = _BOX_END.match(line.text)
        if who and end:
            code = int(end["code"] or end["exit"])
            killed = end["name"] or (0 < code < 16 and end["code"] and code in _SIGNALS.values())
            named = who["rank"] or who["first"]
            rank = int(named) if named else None
            ended = _split(-code if killed else code)
            yield Ending(rank, who["node"] or "", *ended, line, stream.path)
            who = None


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
                time = read_time(fields.get("time", "")) or 0.0
                ended = _split(int(code[0]))
                yield Ending(*who, *ended, line, stream.path, first=root, time=time)
            root = False
