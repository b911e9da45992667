"""squeue: the jobs, in the columns that were asked for."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence

from . import options, times
from .errors import CommandError
from .hostlist import compress
from .records import Job
from .store import Store

_DEFAULT = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
_FIELD = re.compile(r"%(\.?)(\d*)([A-Za-z])")
_LONG_FIELD = re.compile(r"([A-Za-z_]+)(?::(\.?)(\d*))?")
_SHOWN = ("PENDING", "RUNNING", "COMPLETING")
CODES = {
    "PENDING": "PD", "RUNNING": "R", "COMPLETING": "CG", "COMPLETED": "CD", "FAILED": "F",
    "CANCELLED": "CA", "TIMEOUT": "TO", "NODE_FAIL": "NF",
}  # fmt: skip


def elapsed(job: Job) -> float:
    """Seconds the present start has run, or ran."""
    status = job.status
    if not status.start or status.state == "PENDING":
        return 0.0
    return (status.end or time.time()) - status.start


def _left(job: Job) -> str:
    limit = job.request.limit
    return "UNLIMITED" if limit is None else times.clock(limit - elapsed(job))


def _expected_end(job: Job) -> str:
    status, limit = job.status, job.request.limit
    if status.end or not status.start or limit is None:
        return times.stamp(status.end)
    return times.stamp(status.start + limit)


def _where(job: Job) -> str:
    running = job.status.state in ("RUNNING", "COMPLETING")
    return compress(job.status.nodes) if running else f"({job.status.reason})"


def _start(job: Job) -> str:
    waits = job.status.state == "PENDING"
    begin = job.status.eligible if job.status.reason == "BeginTime" else 0.0
    return times.stamp(begin if waits else job.status.start)


def _limit(job: Job) -> str:
    return "UNLIMITED" if job.request.limit is None else times.clock(job.request.limit)


def _cpus(job: Job) -> str:
    return str((job.request.ntasks or job.request.nodes) * (job.request.cpus_per_task or 1))


# letter of -o, name of -O, heading, value
_COLUMNS: tuple[tuple[str, str, str, Callable[[Job], str]], ...] = (
    ("i", "JobArrayId", "JOBID", lambda j: str(j.request.id)),
    ("A", "JobId", "JOBID", lambda j: str(j.request.id)),
    ("F", "ArrayJobId", "ARRAY_JOB_ID", lambda j: str(j.request.id)),
    ("K", "ArrayTaskId", "ARRAY_TASK_ID", lambda _: "N/A"),
    ("j", "Name", "NAME", lambda j: j.request.name),
    ("T", "State", "STATE", lambda j: j.status.state),
    ("t", "StateCompact", "ST", lambda j: CODES[j.status.state]),
    ("r", "Reason", "REASON", lambda j: j.status.reason),
    ("R", "ReasonList", "NODELIST(REASON)", _where),
    ("M", "TimeUsed", "TIME", lambda j: times.clock(elapsed(j))),
    ("l", "TimeLimit", "TIME_LIMIT", _limit),
    ("L", "TimeLeft", "TIME_LEFT", _left),
    ("D", "NumNodes", "NODES", lambda j: str(j.request.nodes)),
    ("N", "NodeList", "NODELIST", lambda j: compress(j.status.nodes)),
    ("B", "BatchHost", "EXEC_HOST", lambda j: compress(j.status.nodes[:1]) or "n/a"),
    ("C", "NumCPUs", "CPUS", _cpus),
    ("k", "Comment", "COMMENT", lambda j: j.request.comment or "(null)"),
    ("S", "StartTime", "START_TIME", _start),
    ("e", "EndTime", "END_TIME", _expected_end),
    ("V", "SubmitTime", "SUBMIT_TIME", lambda j: times.stamp(j.request.submitted)),
    ("Q", "PriorityLong", "PRIORITY", lambda j: str(4294901760 - j.request.id)),
    ("P", "Partition", "PARTITION", lambda j: j.request.partition),
    ("u", "UserName", "USER", lambda j: j.request.user),
    ("a", "Account", "ACCOUNT", lambda j: j.request.account or "(null)"),
    ("q", "QOS", "QOS", lambda j: j.request.qos or "(null)"),
    ("E", "Dependency", "DEPENDENCY", lambda j: j.request.dependency or "(null)"),
    ("Z", "WorkDir", "WORK_DIR", lambda j: j.request.directory),
    ("o", "Command", "COMMAND", lambda j: j.request.command or "(null)"),
    ("", "RestartCnt", "RESTART_COUNT", lambda j: str(j.status.restarts)),
    ("", "exit_code", "EXIT_CODE", lambda j: str(j.status.exit)),
)
_LETTERS = {letter: (heading, value) for letter, _, heading, value in _COLUMNS if letter}
_NAMES = {name.lower(): (heading, value) for _, name, heading, value in _COLUMNS}


def main(store: Store, words: Sequence[str]) -> int:
    """Print one line a job."""
    wanted, _ = options.parse("squeue", options.SQUEUE, words)
    if "version" in wanted:
        print(options.VERSION)
        return 0
    jobs = _chosen(store, wanted)
    rows = (
        _long_rows(wanted["Format"])
        if "Format" in wanted
        else _rows(wanted.get("format", _DEFAULT))
    )
    if "noheader" not in wanted:
        print(rows(None))
    for job in jobs:
        print(rows(job))
    return 0


def _chosen(store: Store, wanted: Mapping[str, str]) -> list[Job]:
    states = _states(wanted.get("states", ""))
    if "jobs" in wanted:
        numbers = _ids(wanted["jobs"])
        known = {job.request.id: job for job in store.jobs(sorted(set(numbers)))}
        if len(numbers) == 1 and not known:
            raise CommandError("slurm_load_jobs error: Invalid job id specified")
        jobs = list(known.values())
    else:
        jobs = store.jobs(store.ids() if set(states) - set(_SHOWN) else store.active())
    names = wanted["name"].split(",") if "name" in wanted else None
    return [
        job
        for job in jobs
        if job.status.state in states and (names is None or job.request.name in names)
    ]


def _ids(text: str) -> list[int]:
    words = [word.strip().partition("_")[0] for word in text.split(",") if word.strip()]
    for word in words:
        if not word.isdigit():
            raise CommandError(f"squeue: error: Invalid job id: {text}")
    return [int(word) for word in words]


def _states(text: str) -> Sequence[str]:
    if not text:
        return _SHOWN
    if text.lower() == "all":
        return tuple(CODES)
    full = {short: long for long, short in CODES.items()}
    found = [full.get(word, word) for word in text.upper().split(",")]
    for word in found:
        if word not in CODES:
            raise CommandError(f"squeue: error: Invalid job state specified: {word}")
    return found


def _rows(form: str) -> Callable[[Job | None], str]:
    unknown = [m.group(3) for m in _FIELD.finditer(form) if m.group(3) not in _LETTERS]
    if unknown:
        raise CommandError(f"squeue: error: Invalid job format specification: {unknown[0]}")

    def row(job: Job | None) -> str:
        def field(match: re.Match[str]) -> str:
            heading, value = _LETTERS[match.group(3)]
            return _fit(heading if job is None else value(job), match.group(1), match.group(2))

        return _FIELD.sub(field, form)

    return row


def _long_rows(form: str) -> Callable[[Job | None], str]:
    fields = []
    for word in form.split(","):
        match = _LONG_FIELD.fullmatch(word.strip())
        if match is None or match.group(1).lower() not in _NAMES:
            raise CommandError(f"squeue: error: Invalid job format specification: {word}")
        fields.append((*_NAMES[match.group(1).lower()], match.group(2) or "", match.group(3)))

    def row(job: Job | None) -> str:
        return "".join(
            _fit(heading if job is None else value(job), dot, width or "20")
            for heading, value, dot, width in fields
        )

    return row


def _fit(text: str, dot: str, width: str) -> str:
    if not width:
        return text
    size = int(width)
    return text[:size].rjust(size) if dot else text[:size].ljust(size)
