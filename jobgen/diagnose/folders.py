"""Any folder of logs → the evidence: a run directory of jobgen with its record, or others' logs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from jobgen.diagnose.evidence import Evidence, read_record
from jobgen.diagnose.log_lines import LogText
from jobgen.model.events import find_decisive_step, have_succeeded, read_events

_EVENTS = re.compile(r"(?:.*/)?state/(?P<task>\d+)/events/(?P<restart>\d+)\.[^/]+")
_LOGS = re.compile(
    r"(?:.*/)?logs/(?P<task>\d+)/(?P<restart>\d+)/(?:(?P<step>[A-Za-z][\w-]*)/)?[^/]+"
)
_RUN = re.compile(r"(?:.*/)?(?:state|bundle|submit)/|(?:.*/)?(?:MANIFEST\.sha256|TOKEN|run\.json)$")
"""Files of a run directory that are no logs."""
_NOT_LOGS = re.compile(
    r"\.(?:py|pyc|json|ya?ml|toml|md|sh|sbatch|csv|pt|pth|bin|safetensors|png|svg|html|gz|zip|tar|so"
    r"|pkl|npz?|lock|cfg|ini)$|(?:^|/)\.",
    re.IGNORECASE,
)
_JOB_STATE = re.compile(r"\bJobState=([A-Z_]+)\b")
_SACCT = re.compile(r"^\d+(?:_\d+)?\|[^|\n]*\|([A-Z_]+)(?: by \d+)?\|", re.MULTILINE)
_SACCT_COLUMNS = re.compile(
    r"^\d+(?:_\d+)? .*?\s(COMPLETED|FAILED|TIMEOUT|CANCELLED|PREEMPTED|NODE_FAIL|OUT_OF_MEMORY)\b",
    re.MULTILINE,
)
_TASKS = re.compile(r"\bNumTasks=(\d+)")
_SACCT_TABLE = re.compile(r"(?:^|\")JobID\|[^\n\"]*(?:\n\d+[^\n\"]*)+", re.MULTILINE)
_SCHEDULER = re.compile(
    r"(?:^|/)(?:scheduler|sacct|scontrol|squeue|slurm_job)[^/]*\.(?:json|txt|out)$"
)


_NAMED_JOB = re.compile(
    r"(?:^|/|[-_.])(?:(?:slurm|job)[-_.]?(?P<job>\d+)|(?P<number>\d{5,12}))"
    r"(?:[-_.]\w*)*\.(?:out|err|log|txt)$",
    re.IGNORECASE,
)
"""The files of Slurm's ``%j``: a number of five digits is hardly a rank or a node."""
_STATED_JOB = re.compile(r"\b(?:(?:STEP|JOB) (?=\d[\w.]* ON )|SLURM_JOB_ID=)(\d+)")


def list_jobs(texts: Iterable[LogText]) -> dict[str, str]:
    """Of files that tell, by their name or by what Slurm wrote: the path → the job's id."""
    jobs: dict[str, str] = {}
    for piece in texts:
        if match := _NAMED_JOB.search(piece.path) or _STATED_JOB.search(piece.text):
            jobs.setdefault(piece.path, next(filter(None, match.groups())))
    return jobs


def is_log(path: str) -> bool:
    """Whether a file, by its name, may be a log."""
    return not (_NOT_LOGS.search(path) or _RUN.match(path)) or is_fact(path)


def is_fact(path: str) -> bool:
    """Whether a file, by its name, tells what the scheduler or the event record knows."""
    return bool(_EVENTS.fullmatch(path) or _SCHEDULER.search(path))


def build_evidence(texts: Iterable[LogText], state: str = "") -> Evidence:
    """The evidence that these files hold; of a run that started again, that of its newest start."""
    pieces = list(texts)
    task, restart = _find_newest([piece.path for piece in pieces])
    events, logs, scheduler = [], [], []
    for piece in pieces:
        if match := _EVENTS.fullmatch(piece.path):
            events += [piece.text] if _is_of(match, task, restart) else []
        elif _SCHEDULER.search(piece.path):
            scheduler.append(piece.text)
        elif (match := _LOGS.fullmatch(piece.path)) is None or _is_of(match, task, restart):
            logs.append(piece)
    rows = read_events("".join(events))
    step, succeeded = find_decisive_step(rows), have_succeeded(rows)
    if step:  # other steps have succeeded, other groups only followed
        rows = tuple(row for row in rows if row.fields.get("step", "") == step)
        logs = [piece for piece in logs if _find_step(piece.path) in ("", step)]
    return read_record(rows)._replace(
        succeeded=succeeded,
        state=state or _read_state(scheduler),
        logs=tuple(logs),
        start=restart + 1,
        task="" if task == 0 else str(task),
        tasks=_count_tasks(scheduler),
        unused=_find_unused(scheduler),
    )


def _find_newest(paths: Sequence[str]) -> tuple[int, int]:
    """The element and the start that are read: the first element's newest start."""
    starts: dict[int, int] = {}
    for path in paths:
        if match := _EVENTS.fullmatch(path) or _LOGS.fullmatch(path):
            task, restart = int(match["task"]), int(match["restart"])
            starts[task] = max(starts.get(task, 0), restart)
    task = min(starts, default=0)
    return task, starts.get(task, 0)


def _find_step(path: str) -> str:
    """The step that a log belongs to; empty if it is none of a step's."""
    match = _LOGS.fullmatch(path)
    return (match["step"] or "") if match else ""


def _is_of(match: re.Match[str], task: int, restart: int) -> bool:
    return (int(match["task"]), int(match["restart"])) == (task, restart)


def _read_state(texts: Iterable[str]) -> str:
    """The job's state in what scontrol or sacct printed; the last of several."""
    for text in texts:
        for pattern in (_SACCT, _SACCT_COLUMNS, _JOB_STATE):
            states = [s for s in pattern.findall(text.replace("\\n", "\n")) if s != "REQUEUED"]
            if states:
                return str(states[-1])
    return ""


def _count_tasks(texts: Iterable[str]) -> int:
    """The tasks of the job in what scontrol printed."""
    return max((int(number) for text in texts for number in _TASKS.findall(text)), default=0)


def _find_unused(texts: Iterable[str]) -> str:
    """The nodes of the only step and those of the job, if sacct shows that they differ."""
    for text in texts:
        if table := _SACCT_TABLE.search(text.replace("\\n", "\n")):
            head, *rows = [line.split("|") for line in table[0].split("\n")]
            if "NodeList" not in head:
                continue
            at = head.index("NodeList")
            nodes = {row[0]: row[at] for row in rows if len(row) > at}
            jobs = {name for job, name in nodes.items() if job.isdigit()}
            steps = {name for job, name in nodes.items() if re.fullmatch(r"\d+\.\d+", job)}
            if len(jobs) == len(steps) == 1 and jobs != steps:
                return f"{steps.pop()}, and the job has {jobs.pop()}"
    return ""
