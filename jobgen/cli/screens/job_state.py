"""A job's state in words: how it is painted, how old it is, and why it is so."""

from __future__ import annotations

from jobgen.cli.output import defuse
from jobgen.model.record import JobState, RunRecord
from jobgen.wording import count

OLD = 60.0
"""Seconds after which a cached value is marked by ``~``."""
GOING = frozenset({JobState.RUNNING, JobState.COMPLETING, JobState.SUSPENDED})
_ENDS = {
    JobState.COMPLETED: "ok",
    JobState.TIMEOUT: "reached the time limit",
    JobState.OUT_OF_MEMORY: "used more memory than it requested",
    JobState.NODE_FAIL: "a node failed",
    JobState.BOOT_FAIL: "a node did not boot",
    JobState.PREEMPTED: "preempted by another job",
    JobState.DEADLINE: "missed its deadline",
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
        from jobgen.diagnose import describe_job_exit

        code = describe_job_exit(record.exit, cancelled=record.state is JobState.CANCELLED)
        words = _ENDS.get(record.state, "") or _reason(record) or _explain(record)
        again = count(record.restarts, "restart") if record.restarts else ""
        return ", ".join(w for w in (defuse(words), defuse(code), again) if w)
    if record.state in GOING:
        return defuse(f"on {record.nodes}") if record.nodes else ""
    from jobgen.scheduler.reasons import is_held

    starts = record.started and not is_held(record.reason)
    return _reason(record) + (f", starts {defuse(record.started)}" if starts else "")


def _explain(record: RunRecord) -> str:
    """Why it failed, if its logs were read."""
    if record.cause is None:
        return ""
    from jobgen.cli.screens import failure

    return failure.explain_cause(record.cause)


def _reason(record: RunRecord) -> str:
    if record.reason in ("", "None"):
        return ""
    from jobgen.scheduler.reasons import explain_reason

    # of what sbatch said, the first line; show has it all
    return defuse(explain_reason(record.reason.strip().split("\n")[0]))
