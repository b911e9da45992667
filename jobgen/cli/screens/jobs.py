"""The answers of ``show``, ``wait`` and ``cancel``, and the words for a job's state."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jobgen.cli.layout import align, count, fold, format_span
from jobgen.cli.output import Ink, defuse
from jobgen.cli.screens.ranks import describe_ranks, name_log_command
from jobgen.cli.screens.run_files import format_location
from jobgen.model.record import JobState, RunRecord

if TYPE_CHECKING:
    from jobgen.app.jobs import RunView

OLD = 60.0
"""Seconds after which a cached value is marked by ``~``."""
GOING = frozenset({JobState.RUNNING, JobState.COMPLETING, JobState.SUSPENDED})
_UNFINISHED = "98:0"
"""How Slurm shows the exit code of a job that the pre-timeout signal stopped before its end."""
_GO_ON = ("to go on", "jobgen submit job.yaml  # resumes if checkpoint.dir is set")
_ENDS = {
    JobState.COMPLETED: "ok",
    JobState.TIMEOUT: "the time limit was reached",
    JobState.OUT_OF_MEMORY: "more memory than it asked for",
    JobState.NODE_FAIL: "a node failed",
    JobState.BOOT_FAIL: "a node did not boot",
    JobState.PREEMPTED: "another job took its nodes",
    JobState.DEADLINE: "its deadline passed",
}


def get_style(found: JobState) -> str:
    """How a state is painted: good, bad or busy."""
    if found is JobState.COMPLETED:
        return "good"
    return "bad" if found.final else "busy"


def name_state(record: RunRecord) -> str:
    """The state's word; Slurm's own beside one that this version does not know."""
    raw = defuse(record.raw) if record.state is JobState.UNKNOWN and record.raw else ""
    return f"{record.state}({raw})" if raw else str(record.state)


def is_old(record: RunRecord, now: float) -> bool:
    """Whether the state may have changed since: asked long ago, or not answered last time."""
    unheard = not 0 <= now - record.updated <= OLD or "silent" in record.submission
    return unheard and not record.ended


def compute_elapsed(record: RunRecord, now: float) -> float | None:
    """Seconds running, counted on from when it was heard."""
    if record.elapsed is None or record.state is not JobState.RUNNING:
        return record.elapsed
    return record.elapsed + max(now - record.updated, 0)


def draw_info(record: RunRecord) -> str:
    """Why it waits, where it runs, or how it ended, in words."""
    if record.state.final:
        code = f"exit {record.exit}" if record.exit not in ("", "0:0") else ""
        words = _ENDS.get(record.state, "") or _reason(record)
        again = count(record.restarts, "restart") if record.restarts else ""
        return ", ".join(w for w in (defuse(words), defuse(code), again) if w)
    if record.state in GOING:
        return defuse(f"on {record.nodes}") if record.nodes else ""
    from jobgen.scheduler.reasons import is_held

    starts = record.started and not is_held(record.reason)
    return _reason(record) + (f", starts {defuse(record.started)}" if starts else "")


def _reason(record: RunRecord) -> str:
    if record.reason in ("", "None"):
        return ""
    from jobgen.scheduler.reasons import explain_reason

    # of what sbatch said, the first line; show has it all
    return defuse(explain_reason(record.reason.strip().split("\n")[0]))


# one job


def draw_run(found: RunView, now: float, ink: Ink, *, gpus: bool = False) -> str:
    """One job in full: its state, what happened when, its files, the next commands."""
    record = found.record
    name = defuse(record.alias)
    job = f"Slurm {record.job}" if record.site.scheduler == "slurm" else f"job {record.job}"
    job = job if record.job else "no job id"
    head = f"{ink('strong', name)} ({job}, {defuse(record.site.cluster)})"
    took, word = compute_elapsed(record, now), "in" if record.ended else "for"
    during = f" {word} {format_span(took)}" if took else ""
    more = draw_info(record)
    lines = [f"{head}  {ink(get_style(record.state), name_state(record))}{during}"]
    lines += [f"  {fold(more, ink.width - 2, '  ')}"] if more else []
    if is_old(record, now):
        lines.append(f"  state of {format_span(max(now - record.updated, 0))} ago")
    about = [*_elements(record), *describe_ranks(record)]
    lines += [f"  {fold(text, ink.width - 2, '  ')}" for text in about]
    for start, node, what in record.unfit:
        said = f"preflight of start {start}: {defuse(node)}: {defuse(what)}"
        lines.append(f"  {fold(said, ink.width - 2, '  ')}")
    if record.report:
        told = ", ".join(f"{defuse(key)} {value:,.10g}" for key, value in record.report.items())
        lines.append(f"  {fold(f'reported: {told}', ink.width - 2, '  ')}")
    happened = [(_clock(h.time, now), defuse(h.text)) for h in found.timeline]
    parts = ["\n".join(lines) + "\n"]
    if happened:
        parts.append(f"{ink('strong', 'What happened')}\n{align(happened, indent='  ')}")
    if found.watched is not None:
        from jobgen.cli.screens import monitor

        parts.append(monitor.draw_section(found.watched, now, ink, gpus=gpus))
    elif gpus:
        how = "monitor: 30s in the job file writes down what they do"
        parts.append(f"{ink('strong', 'GPUs')}  not watched: {how}\n")
    if found.files:
        place = f"{ink('strong', 'Files')} in {format_location(record)}"
        names = fold("  ".join(label for label, _ in found.files), ink.width - 2, "  ")
        parts.append(f"{place}\n  {names}\n")
    parts.append(f"{ink('strong', 'Next')}\n{align(_next(record), indent='  ')}")
    return "\n".join(parts)


def _elements(record: RunRecord) -> list[str]:
    """``elements: 2 running, 34 pending``; nothing for a job that is no array."""
    words = [f"{n} {defuse(state).lower()}" for state, n in record.elements.items()]
    return [f"elements: {', '.join(words)}"] if words else []


def _next(record: RunRecord) -> list[tuple[str, str]]:
    name = defuse(record.alias)
    if record.ended:
        rows = [("logs", f"jobgen logs {name}"), ("errors", name_log_command(record))]
        return [_GO_ON, *rows] if record.exit == _UNFINISHED else rows
    return [("follow", f"jobgen logs {name} -f"), ("cancel", f"jobgen cancel {name}")]


def _clock(moment: float | None, now: float) -> str:
    if moment is None:
        return "-"
    day = (
        "%H:%M:%S" if time.localtime(moment)[:3] == time.localtime(now)[:3] else "%Y-%m-%d %H:%M:%S"
    )
    return time.strftime(day, time.localtime(moment))


def draw_detached(record: RunRecord, ink: Ink) -> str:
    """What is said when a person leaves: the job goes on, and how to come back."""
    name = defuse(record.alias)
    still = "has ended" if record.ended else f"goes on ({name_state(record)})"
    rows = [("back", f"jobgen logs {name} -f"), ("stop it", f"jobgen cancel {name}")]
    return f"{ink('strong', 'Detached.')} {name} {still}.\n{align(rows, indent='  ')}".rstrip("\n")


def draw_ended(record: RunRecord, ink: Ink) -> str:
    """``llama-3  COMPLETED in 3h41m``, and where to look where it did not."""
    during = f" in {format_span(record.elapsed)}" if record.elapsed is not None else ""
    more = draw_info(record)
    about = f" ({more})" if more and record.state is not JobState.COMPLETED else ""
    name = defuse(record.alias)
    line = f"{name}  {ink(get_style(record.state), name_state(record))}{during}{about}\n"
    if record.state is JobState.COMPLETED:
        return line
    ranks = "".join(f"  {text}\n" for text in describe_ranks(record))
    log = ("error log", name_log_command(record))
    label, command = _GO_ON if record.exit == _UNFINISHED else log
    return f"{line}{ranks}  {label}  {command}\n"


def draw_cancelled(records: Sequence[RunRecord], ink: Ink, *, signal: str) -> str:
    """What became of each."""
    lines = []
    for record in records:
        if signal and not record.ended:
            lines.append(
                f"{defuse(record.alias)}  got {defuse(signal)}; it is {name_state(record)}\n"
            )
        else:
            found = ink(get_style(record.state), name_state(record))
            lines.append(f"{defuse(record.alias)}  {found}\n")
    return "".join(lines)


# plain data


def dump_job(record: RunRecord) -> dict[str, Any]:
    """One job as plain data."""
    return {
        "id": record.alias,
        "name": record.name,
        "slurm_id": record.job and str(record.job),
        "cluster": record.site.cluster,
        "scheduler": record.site.scheduler,
        "state": str(record.state),
        "raw": record.raw or None,
        "reason": record.reason or None,
        "exit": record.exit or None,
        "nodes": record.nodes or None,
        "started": record.started or None,
        "elapsed": record.elapsed,
        "left": record.left,
        "restarts": record.restarts,
        "ended": record.ended,
        "created": record.created,
        "updated": record.updated,
        "dir": record.directory or None,
        "token": record.token,
        "digest": f"sha256:{record.digest}",
        "shape": dict(record.shape),
        **({"elements": dict(record.elements)} if record.elements else {}),
        "report": dict(record.report),
        "preflight": [
            {"start": start, "node": node, "what": what} for start, node, what in record.unfit
        ],
        "failures": [failure._asdict() for failure in record.failures],
        "silences": [silence._asdict() for silence in record.silences],
    }


def dump_run(found: RunView) -> dict[str, Any]:
    """One job as plain data, with what happened and its files."""
    watched: dict[str, Any] = {}
    if found.watched is not None:
        from jobgen.cli.screens import monitor

        watched["monitor"] = monitor.data(found.watched)
    return {
        "job": dump_job(found.record),
        "timeline": [{"time": h.time, "text": h.text} for h in found.timeline],
        "files": dict(found.files),
        **watched,
    }
