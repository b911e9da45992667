"""The jobs of a run after its first one: how many arrays a large sweep needs; their submission."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobgen.errors import Diagnostic, JobgenError, Unfit
from jobgen.model.array import fold_indexes, read_indexes
from jobgen.model.chain import lacks_chain_jobs, list_chain
from jobgen.model.race import lacks_entries, list_entries
from jobgen.model.sweep_arrays import list_missing, split_sweep
from jobgen.payload import text
from jobgen.scheduler import get_scheduler
from jobgen.scheduler.array_limits import parse_array_limits
from jobgen.shell import build_script
from jobgen.submission import scripts, wire
from jobgen.submission.exchange import build_array_words
from jobgen.submission.markers import read_markers

if TYPE_CHECKING:
    from jobgen.app.context import RunContext
    from jobgen.app.prepare import PreparedJob
    from jobgen.model.record import RunRecord
    from jobgen.model.record_data import Submission
    from jobgen.scheduler.array_limits import ArrayLimits
    from jobgen.transport import Transport

DEADLINE = 45.0


def ask_limits(transport: Transport, ready: PreparedJob) -> ArrayLimits:
    """What the cluster allows to a sweep. Raises Unreachable."""
    directives = ready.plan.directives
    names = [each.value if (each := directives.get(key)) else "" for key in ("account", "qos")]
    parts = ("common.sh", "account_limits.sh", "array_limits.sh")
    asked = build_script("".join(map(text, parts)), *names)
    try:
        reply = wire.index(wire.split_frames(transport.call(asked, deadline=DEADLINE).out))
    except wire.GarbledError:
        reply = {}
    return parse_array_limits(reply.get("config.out", ""), reply.get("limits", ""))


def plan_arrays(record: RunRecord, ready: PreparedJob, limits: ArrayLimits) -> RunRecord:
    """The record with the arrays of its sweep, if one array with its own indexes is not enough.

    Raises Unfit if the cluster does not take so many jobs.
    """
    indexes = ready.plan.directives["array"].value
    elements = read_indexes(indexes.partition("%")[0])
    tightest = limits.find_tightest()
    if tightest is not None and len(elements) > tightest.left:
        used = f", {tightest.used:,} of them in use" if tightest.used else ""
        message = (
            f"{len(elements):,} elements, but {tightest.name} of {tightest.owner} is "
            f"{tightest.most:,}{used}: {tightest.left:,} fit"
        )
        first = fold_indexes(elements[: tightest.left])
        hint = f'run a part: --set sweep.only="{first}"' if first else "wait until jobs have ended"
        raise Unfit(Diagnostic("J295", message, ready.job.find_place("sweep"), hint))
    arrays = split_sweep(indexes, limits.array_size)
    if len(arrays) == 1 and not arrays[0].offset:
        return record
    return record._replace(shape={**record.shape, "arrays": [list(array) for array in arrays]})


def submit_arrays(record: RunRecord, context: RunContext) -> RunRecord:
    """The run with the ids of its jobs after the first one, as far as the cluster took them.

    Submits those that are missing: each is taken by the scheduler or refused, whatever becomes
    of this process. Raises Unreachable.
    """
    if record.job is None or not lacks_jobs(record):
        return record
    words = build_array_words(record, get_scheduler(record.site))
    text = scripts.start_arrays(record.directory, record.token, words)
    result = context.transport.call(text, deadline=DEADLINE)
    try:
        frames = wire.split_frames(result.out)
    except wire.GarbledError:
        return record
    ((_, group),) = wire.split([("run", record.directory), *frames], "run")
    marks = read_markers(group)
    submission: Submission = {**record.submission, **marks.list_arrays()}
    if submission == record.submission:
        return record
    return context.ledger.update(record.token, submission=submission)


def lacks_jobs(record: RunRecord) -> bool:
    """Whether some jobs of a run are not submitted: arrays of a sweep, entries of a race, jobs of a
    chain."""
    return bool(list_missing(record)) or lacks_entries(record) or lacks_chain_jobs(record)


def list_refused(record: RunRecord) -> tuple[str, ...]:
    """The jobs of a race or a chain that the cluster refused, each with its reason."""
    entries = [(entry.name, entry.failure) for entry in list_entries(record)]
    chain = list_chain(record)
    links = [(f"job {n} of {len(chain)}", e.failure) for n, e in enumerate(chain, start=1)]
    refused = [(name, failure) for name, failure in (*entries, *links) if failure]
    return tuple(f"{name} is not queued: {failure.strip()}" for name, failure in refused)


def describe_unsent(record: RunRecord) -> str:
    """Which elements are not submitted, and why; empty if all are."""
    missing = [each for array in list_missing(record) for each in array.list_elements()]
    if not missing:
        return ""
    why = str(record.submission.get("arrays_failed", "")).strip()
    which = f"elements {fold_indexes(missing)} are not submitted"
    return f"{which}: {why}" if why else f"{which} yet"


def require_submitted(record: RunRecord) -> None:
    """Raise JobgenError if the cluster refused some arrays of a sweep."""
    if list_missing(record) and record.submission.get("arrays_failed"):
        hint = f"when the others have ended: jobgen rerun {record.alias} --failed"
        raise JobgenError(f"{record.alias}: {describe_unsent(record)}", hint=hint)
