"""``diagnose``: the cause of a failure, from a run or from any logs."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from jobgen.app.program_parts import find_failed_part
from jobgen.errors import JobgenError, Missing, Usage
from jobgen.named_tuple import NamedTuple
from jobgen.shell import quote
from jobgen.wording import join_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobgen.app.world import World
    from jobgen.diagnose import Evidence, LogText
    from jobgen.diagnose.remedies import Remedy
    from jobgen.model.cause import FailureCause
    from jobgen.model.record import RunRecord
    from jobgen.transport import Transport


_LOG_NAMES = (".log", ".out", ".err", ".txt")
"""Ends of names that are files', not jobs'."""


class Diagnosed(NamedTuple):
    """What was found out."""

    what: str
    """The name of the run, or the paths."""
    cause: FailureCause | None
    """None if nothing shows a failure."""
    record: RunRecord | None = None
    files: int = 0
    """How many log files were read; 0 for a run."""
    remedies: tuple[Remedy, ...] = ()
    """What to do, cheapest first."""
    remark: str = ""
    """Of a job that did not fail, the one thing worth a look."""

    def shorten(self, text: str) -> str:
        """A text without the folder of the run's sources, which are copies."""
        return text.replace(f"{self.record.directory}/src/", "") if self.record else text


def diagnose(world: World, words: Sequence[str], cluster: str = "") -> Diagnosed:
    """The first failure of a run, or of what these files and folders hold.

    A path that exists counts before a run of that name. On ``cluster`` the job file of the current
    folder is planned, if logs are of its program; else on the one that it names.
    Raises Missing, Unreachable, JobgenError.
    """
    if list(words) == ["-"]:
        return _diagnose_stdin(world, cluster)
    paths = [Path(word) for word in words]
    missing = [str(path) for path in paths if not path.exists()]
    if not missing:
        return _diagnose_paths(world, paths, cluster)
    if len(words) > 1 or "/" in missing[0] or missing[0].endswith(_LOG_NAMES):
        raise Missing(f"no such file or folder: {missing[0]}", hint="list your runs: jobgen ls")
    return _diagnose_run(world, words[0])


def _diagnose_stdin(world: World, cluster: str) -> Diagnosed:
    """What a pipe holds, by way of a file: only a part of a large log is read."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stdin"
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        found = _diagnose_paths(world, [path], cluster)
    cause = found.cause and found.cause._replace(file="-")
    return found._replace(what="standard input", cause=cause)


def _diagnose_run(world: World, ref: str) -> Diagnosed:
    from jobgen.app.checked_fixes import check_fixes
    from jobgen.app.failures import explain
    from jobgen.app.jobs import observe
    from jobgen.diagnose.remedies import list_remedies

    record = world.ledger.get(ref)
    with world.connect(record.site.login) as transport:
        (record,) = observe(world, transport, (record,))
        record = explain(world, transport, record) if record.ended else record
        remark = _remark(transport, record) if record.ended and record.cause is None else ""
    if record.cause is None:
        return Diagnosed(record.alias, None, record, remark=remark)
    failed = find_failed_part(record)
    part = (f"--{record.part_kind}", failed) if failed else ()
    job = str(record.job._replace(cluster="")) if record.job else ""
    remedies = list_remedies(record.cause, record.alias, record.profile, part, job)
    found = Diagnosed(record.alias, record.cause, record)
    checked = check_fixes(world, record, remedies)
    return found._replace(remedies=tuple(r._replace(text=found.shorten(r.text)) for r in checked))


def _remark(transport: Transport, record: RunRecord) -> str:
    """What the monitors of a run saw, else what its logs show."""
    from jobgen.app.log_evidence import gather_run
    from jobgen.app.monitor_reports import recall
    from jobgen.diagnose.remarks import find_remark

    watched = recall(record)
    if watched is not None and watched.remarks:
        return watched.remarks[0].text
    evidence = gather_run(transport, record)
    return find_remark(evidence) if evidence is not None else ""


def _diagnose_paths(world: World, paths: Sequence[Path], cluster: str) -> Diagnosed:
    from jobgen.diagnose import find_cause
    from jobgen.diagnose.remarks import find_remark

    evidence, files = _gather(paths)
    cause = find_cause(evidence)
    what = " ".join(map(str, paths))
    if cause is None:
        return Diagnosed(what, None, None, files, remark=find_remark(evidence))
    texts = [log.text for log in evidence.logs]
    remedies = _list_logged_remedies(world, cause, texts, cluster)
    return Diagnosed(what, cause, None, files, tuple(remedies))


def _list_logged_remedies(
    world: World, cause: FailureCause, texts: Sequence[str], cluster: str
) -> Sequence[Remedy]:
    """What to do about a failure that logs alone show; commands, where the job file of the current
    folder starts their program, and its cluster is given or named in it."""
    from jobgen.app.checked_fixes import (
        FailedJob,
        find_logged_cluster,
        find_logged_job,
        generalize,
        try_fixes,
    )
    from jobgen.diagnose.program_framework import list_frame_files, recognize_framework
    from jobgen.diagnose.remedies import list_remedies

    framework = recognize_framework(list_frame_files(texts))
    job = find_logged_job(world, texts, framework)
    if job is not None and (cluster := find_logged_cluster(world, job, cluster)):
        failed = FailedJob(Path("job.yaml"), cluster, cluster, lines=cause.lines)
        return try_fixes(world, failed, list_remedies(cause, cluster=cluster))
    planned = job.value.train.framework if job and job.value.train else None
    return generalize(list_remedies(cause), framework or planned or "", job)


def _gather(paths: Sequence[Path]) -> tuple[Evidence, int]:
    """The evidence of all paths; of one folder alone, with the record that it may hold."""
    from jobgen.app.log_evidence import gather_file, gather_folder
    from jobgen.diagnose.folders import build_evidence
    from jobgen.transport.this_machine import LocalTransport

    with LocalTransport() as transport:
        if len(paths) == 1 and paths[0].is_dir():
            evidence, files = gather_folder(transport, str(paths[0].resolve()))
            if not (evidence.starts or evidence.ends):
                _refuse_two_jobs(evidence.logs, f"{paths[0]}/")
            return evidence, files
        texts, files = [], 0
        for path in paths:
            whole = str(path.resolve())
            if path.is_dir():
                evidence, count = gather_folder(transport, whole)
                texts += [text._replace(path=f"{path}/{text.path}") for text in evidence.logs]
                files += count
            else:
                texts += [text._replace(path=str(path)) for text in gather_file(transport, whole)]
                files += 1
        if not any(text.text for text in texts):
            verb = "is" if len(paths) == 1 else "are"
            raise JobgenError(f"{join_words([path.name for path in paths], 'and')} {verb} empty")
        _refuse_two_jobs(texts)
        return build_evidence(texts), files


def _refuse_two_jobs(texts: Sequence[LogText], folder: str = "") -> None:
    """Raises Usage for logs of several jobs: their lines would be told as one failure."""
    from jobgen.diagnose.folders import list_jobs

    jobs = list_jobs(texts)
    if len(set(jobs.values())) > 1:
        newest = max(jobs, key=lambda path: int(jobs[path]))
        other = next(path for path in jobs if jobs[path] != jobs[newest])
        raise Usage(
            f"these are logs of several jobs: {folder}{other} is of job {jobs[other]}, "
            f"{folder}{newest} of job {jobs[newest]}",
            hint=f"give those of one job: jobgen diagnose {quote(folder + newest)}",
        )
