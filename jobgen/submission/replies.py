"""What the scripts answered, as facts of the submission."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jobgen.model.record import JobId
from jobgen.named_tuple import NamedTuple
from jobgen.scheduler import OwnJob, Scheduler
from jobgen.shell import Command, Result, split_lines
from jobgen.submission import wire
from jobgen.submission.states import Mark, Report, Resolved, RunDirectoryMissing, Staged

PAST_DAYS = 2
"""How far back the accounting is searched for a run whose answer was lost."""


class FailedReply(NamedTuple):
    """The other side could not do it: its own words, and what to do."""

    text: str
    hint: str = ""


def read_stage(result: Result) -> Staged | FailedReply:
    """The answer of ``stage``."""
    try:
        reply = wire.index(wire.split_frames(result.out))
    except wire.GarbledError:
        return FailedReply(_describe_noise(result))
    if "failed" in reply:
        return _read_failure(reply)
    if "staged" not in reply or not reply.get("directory", "").startswith("/"):
        return FailedReply(_describe_noise(result))
    now = wire.parse_number(reply.get("now", "")) or 0.0
    return Staged(reply["directory"], now, reply.get("shared", ""))


def read_start(
    result: Result, scheduler: Scheduler, attempt: int
) -> Report | RunDirectoryMissing | FailedReply:
    """The answer of ``start``. One that makes no sense is a report that knows nothing."""
    try:
        reply = wire.index(wire.split_frames(result.out))
    except wire.GarbledError:
        return Report(attempt, 0.0)
    if "failed" in reply:
        return _read_failure(reply)
    return RunDirectoryMissing() if "missing" in reply else _read_report(reply, scheduler, attempt)


def list_questions(scheduler: Scheduler) -> dict[str, Command]:
    """What is asked of the scheduler about an unclear attempt."""
    questions = {"find": scheduler.find(), "config": scheduler.show_config()}
    past = scheduler.find_past(PAST_DAYS)
    return questions if past is None else {**questions, "past": past}


def read_resolve(
    result: Result, scheduler: Scheduler, attempt: int, token: str
) -> Resolved | RunDirectoryMissing:
    """The answers of ``resolve`` and of its questions."""
    try:
        reply = wire.index(wire.split_frames(result.out))
    except wire.GarbledError:
        return Resolved(Report(attempt, 0.0), alive=True)
    if "missing" in reply:
        return RunDirectoryMissing()
    settings = scheduler.parse_config(wire.read_answer(reply, "config"))
    found = scheduler.parse_own_jobs(wire.read_answer(reply, "find"))
    past = scheduler.parse_own_jobs(wire.read_answer(reply, "past"))
    return Resolved(
        _read_report(reply, scheduler, attempt),
        alive=reply.get("alive") != "no",
        jobs=None if found is None else _select_ours(found, token),
        past=_select_ours(past or (), token),
        ttl=float(settings.ttl),
        message_timeout=float(settings.message_timeout),
    )


def _read_report(reply: Mapping[str, str], scheduler: Scheduler, attempt: int) -> Report:
    code = wire.parse_number(reply.get("rc", ""))
    out, err = reply.get("out", "").encode(), reply.get("err", "").encode()
    answer = Result(255 if code is None else int(code), out, err)
    return Report(
        attempt,
        wire.parse_number(reply.get("now", "")) or 0.0,
        host=reply.get("host", ""),
        mark=_read_mark(reply.get("attempt", "")),
        code=None if code is None else int(code),
        ended=wire.parse_number(reply.get("ended", "")) or 0.0,
        printed=scheduler.parse_submit(answer),
        recorded=JobId.read(reply.get("jobid", "")),
        claim=JobId.read(reply.get("claim", "")),
        refused=code is not None and scheduler.is_refusal(answer),
        error=err.decode().strip(),
        cancel="cancel" in reply,
    )


def _read_mark(text: str) -> Mark | None:
    host, _, rest = text.rpartition(".")[0].rpartition(".")
    time = text.rpartition(".")[2]
    if not host or not rest.isdigit() or not time.isdigit():
        return None
    return Mark(host, int(rest), float(time))


def _select_ours(found: Sequence[OwnJob], token: str) -> tuple[JobId, ...]:
    """The copies of a run's job; the other arrays of a large sweep are none."""
    ours = (each.job for each in found if each.belongs_to(token) and not each.array)
    return tuple(dict.fromkeys(job._replace(component=None) for job in ours))


def _read_failure(reply: Mapping[str, str]) -> FailedReply:
    text = reply["failed"].strip() or "the request failed on the cluster"
    lowered = text.lower()
    free = reply.get("free", "").split()
    if "no space left" in lowered or "quota" in lowered:
        room = f"; free: {int(free[3]) // 1024} MiB" if _is_df(free) else ""
        where = free[-1] if _is_df(free) else "that file system"
        return FailedReply(f"the remote disk is full: {text}{room}", f"free some space on {where}")
    if "permission denied" in lowered or "read-only" in lowered:
        return FailedReply(
            text, "check paths.root in the cluster profile: you must be able to write there"
        )
    if "has no sticky bit" in lowered:
        return FailedReply(text, "set paths.root to a directory that only you can write to")
    return FailedReply(text, reply.get("hint", ""))


def _is_df(words: Sequence[str]) -> bool:
    return len(words) >= 6 and words[3].isdigit()


def _describe_noise(result: Result) -> str:
    text = split_lines((result.error_text or result.text).strip())
    said = f": {text[-1][:200]}" if text else ""
    return f"unusable reply from the cluster (exit code {result.code}){said}"
