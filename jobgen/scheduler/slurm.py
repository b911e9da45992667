"""Slurm: its commands as words, its answers as values. 22.05 and later, text output only.

JSON changed its shape in every second release, and ``-O`` cuts fields at a width; ``squeue -o``
and ``sacct -P`` have meant the same since 20.02.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from jobgen.model.observation import Observation, format_mark
from jobgen.model.record import JobId
from jobgen.scheduler import Allocation, Attempt, OwnJob, SchedulerSettings, Tested
from jobgen.scheduler.refusals import is_definite
from jobgen.scheduler.slurm_format import (
    COMMENT,
    SEPARATOR,
    clean_field,
    parse_job_id,
    parse_printed_id,
    parse_seconds,
    parse_state,
    split_nodes,
    split_rows,
)
from jobgen.shell import Command, Result

# id, state, reason, nodes, elapsed, left, start, working directory, comment, name
QUERY = SEPARATOR.join(("%i", "%T", "%r", "%N", "%M", "%L", "%S", "%Z", "%k", "%j"))
FIND = SEPARATOR.join(("%i", "%Z", "%k", "%j"))
ALLOCATION = SEPARATOR.join(("%A", "%N", "%i"))
LIVE = SEPARATOR.join(("%T", "%Z", "%k"))
HISTORY = "JobID,State,Reason,NodeList,ElapsedRaw,ExitCode,Start,WorkDir,Comment,JobName"
FIND_PAST = "JobID,WorkDir,Comment,JobName"

_TTL = {"auth/munge": 300, "auth/slurm": 60, "auth/jwt": 1800}
"""Seconds a credential lives where AuthInfo does not say: slurm.conf(5)."""


@dataclass(frozen=True, slots=True)
class SlurmScheduler:
    """The adapter of Slurm."""

    accounting: Literal["auto", "sacct", "none"] = "auto"

    def submit(self, attempt: Attempt, options: Sequence[str] = ()) -> Command:
        """The sbatch command of one attempt, to be run in the run directory."""
        theirs = [o.removeprefix("--comment=") for o in options if o.startswith("--comment=")]
        comment = " ".join([*theirs[-1:], f"jobgen:{format_mark(attempt.token)}:{attempt.number}"])
        others = [o for o in options if not o.startswith("--comment=")]
        head = ("sbatch", "--parsable", f"--comment={comment}", f"--chdir={attempt.directory}")
        return Command((*head, *others, *attempt.entry))

    def parse_submit(self, result: Result) -> JobId | None:
        """The id that sbatch printed. It may print an id and an error at once: the id wins."""
        return parse_printed_id(result.text)

    def is_refusal(self, result: Result) -> bool:
        """Whether sbatch was definitely refused."""
        return is_definite(result.code, result.error_text) and self.parse_submit(result) is None

    def query(self, jobs: Sequence[JobId]) -> Command:
        """One squeue for all these jobs, ended ones too."""
        ids = list(dict.fromkeys(str(job.job) for job in jobs))
        # one id that is gone is an error to squeue, two are not: then exit 0 means "I looked"
        both = ids * 2 if len(ids) == 1 else ids
        return Command(
            (
                "squeue",
                *_on(jobs),
                "--noheader",
                "--states=all",
                f"--jobs={','.join(both)}",
                f"--format={QUERY}",
            )
        )

    def parse_query(self, result: Result) -> Mapping[JobId, Observation] | None:
        """The rows of squeue; None where it did not answer."""
        if result.code != 0:
            return {} if "Invalid job id specified" in result.error_text else None
        return {
            job: replace(seen, left=parse_seconds(left))
            for job, seen, left in _observations(result)
        }

    def query_history(self, jobs: Sequence[JobId]) -> Command | None:
        """One sacct for these jobs, allocations only."""
        if self.accounting == "none":
            return None
        ids = ",".join(dict.fromkeys(str(job.job) for job in jobs))
        return _sacct(_on(jobs), f"--jobs={ids}", f"--format={HISTORY}")

    def parse_history(self, result: Result) -> Mapping[JobId, Observation] | None:
        """The rows of sacct; None where accounting is off or did not answer."""
        if result.code != 0 or is_accounting_off(result):
            return None
        return {
            job: replace(seen, exit=code if re.fullmatch(r"\d+:\d+", code) else "", source="sacct")
            for job, seen, code in _observations(result)
        }

    def find(self) -> Command:
        """All jobs of this user that Slurm still knows, with their comments."""
        return Command.of("squeue", "--me", "--noheader", "--states=all", f"--format={FIND}")

    def find_states(self, jobs: Sequence[JobId]) -> Command:
        """The state, the working directory and the comment of all jobs of this user."""
        return Command(
            ("squeue", *_on(jobs), "--me", "--noheader", "--states=all", f"--format={LIVE}")
        )

    def find_past(self, days: int) -> Command | None:
        """All jobs of this user in the accounting of the last days; None without accounting."""
        if self.accounting == "none":
            return None
        return _sacct((), f"--starttime=now-{max(1, days)}days", f"--format={FIND_PAST}")

    def parse_own_jobs(self, result: Result) -> tuple[OwnJob, ...] | None:
        """Jobs that carry our comment, or lie in a directory with a name like our own."""
        if result.code != 0 or is_accounting_off(result):
            return None
        seen: dict[JobId, OwnJob] = {}
        for job, workdir, comment, _ in split_rows(result.text, 4):
            known = parse_job_id(job)
            if known is None:
                continue
            first = JobId(known.job)
            mark = COMMENT.search(comment)
            if mark:
                number, array = int(mark.group(2)), int(mark.group(3) or 0)
                seen[first] = OwnJob(first, mark.group(1), number, workdir.strip(), array)
            elif not clean_field(comment) and re.search(r"-[a-z2-7]{8}$", workdir.strip()):
                seen.setdefault(first, OwnJob(first, "", 0, workdir.strip()))
        return tuple(seen[job] for job in sorted(seen))

    def cancel(self, jobs: Sequence[JobId], *, signal: str = "") -> Command:
        """scancel; with ``signal`` to the batch shell only, where the trap is."""
        extra = ("--batch", f"--signal={signal}") if signal else ()
        bare = (str(JobId(job.job, job.task, job.component)) for job in jobs)
        return Command(("scancel", *_on(jobs), *extra, *bare))

    def find_allocations(self, job: JobId) -> Command:
        """squeue, with the number that an element of an array, or a component, has of its own."""
        bare = str(job._replace(cluster=""))
        words = ("--noheader", "--states=running", f"--jobs={bare}", f"--format={ALLOCATION}")
        return Command(("squeue", *_on((job,)), *words))

    def parse_allocations(self, result: Result) -> tuple[Allocation, ...] | None:
        """The rows that name nodes."""
        if result.code != 0:
            return () if "Invalid job id specified" in result.error_text else None
        found = (_read_allocation(*row) for row in split_rows(result.text, 3))
        return tuple(each for each in found if each is not None)

    def start_step(
        self,
        allocation: Allocation,
        node: str,
        command: Command,
        *,
        tty: bool = False,
        unbuffered: bool = False,
        name: str,
    ) -> Command:
        """srun into the allocation: it shares the CPUs and GPUs of the job with the ranks."""
        on = (f"--clusters={allocation.cluster}",) if allocation.cluster else ()
        part = () if allocation.component is None else (f"--het-group={allocation.component}",)
        job = (f"--jobid={allocation.job}", *part)
        where = (*job, f"--nodelist={node}", "--nodes=1", "--ntasks=1")
        how = ("--overlap", "--cpu-bind=none", "--mpi=none", f"--job-name={name}")
        pty = ("--pty",) if tty else ()
        # else slurmstepd keeps what comes until a line is complete
        at_once = ("--unbuffered",) if unbuffered else ()
        return Command(("srun", *on, *where, *how, *pty, *at_once, *command.words))

    def test_only(self, entry: str, options: Sequence[str] = ()) -> Command:
        """``sbatch --test-only``."""
        return Command(("sbatch", "--test-only", *options, entry))

    def parse_test(self, result: Result) -> Tested:
        """What it said: when and where it would start, or why it would be refused."""
        text = (result.error_text + result.text).strip()
        start = re.search(r"Job \d+ to start at (\S+)", text)
        return Tested(result.code == 0, text, start.group(1) if start else "")

    def show_config(self) -> Command:
        """``scontrol show config``."""
        return Command.of("scontrol", "show", "config")

    def parse_config(self, result: Result) -> SchedulerSettings:
        """The lifetimes in it."""
        found = dict(re.findall(r"^(\w+)\s*=\s*(.*?)\s*$", result.text, re.MULTILINE))
        default = SchedulerSettings()
        ttl = re.search(r"\bttl=(\d{1,9})", found.get("AuthInfo", ""))
        storage = found.get("AccountingStorageType", "")
        accounting = storage not in ("accounting_storage/none", "(null)") if storage else None
        return SchedulerSettings(
            ttl=int(ttl.group(1)) if ttl else _TTL.get(found.get("AuthType", ""), default.ttl),
            min_job_age=_number(found.get("MinJobAge", ""), default.min_job_age),
            message_timeout=_number(found.get("MessageTimeout", ""), default.message_timeout),
            accounting=accounting,
            version=found.get("SLURM_VERSION", ""),
        )


def _read_allocation(number: str, nodes: str, row: str) -> Allocation | None:
    """The allocation of a row of squeue; None of one that has no nodes.

    srun takes a component by the number of its job and its own index, not by its own number.
    """
    nodes, known = clean_field(nodes), parse_job_id(row)
    if re.fullmatch(r"\d{1,10}", number.strip(), re.ASCII) is None or not nodes or known is None:
        return None
    job = int(number) if known.component is None else known.job
    return Allocation(job, split_nodes(nodes), component=known.component)


def is_accounting_off(result: Result) -> bool:
    """Whether the answer says that this site keeps no accounting."""
    return "accounting storage is disabled" in (result.error_text + result.text)


def _observations(result: Result) -> Iterator[tuple[JobId, Observation, str]]:
    """Each row of squeue or sacct: the job, its observation, and the column they do not share."""
    for row in split_rows(result.text, 10):
        job, word, reason, nodes, elapsed, other, start, workdir, comment, _ = row
        known = parse_job_id(job)
        if known is None:
            continue
        seen = Observation(
            known,
            parse_state(word),
            raw=word.strip(),
            reason=clean_field(reason),
            nodes=clean_field(nodes),
            elapsed=parse_seconds(elapsed),
            start=clean_field(start),
            comment=clean_field(comment),
            workdir=workdir.strip(),
        )
        yield known, seen, other.strip()


def _on(jobs: Sequence[JobId]) -> tuple[str, ...]:
    return (f"--clusters={jobs[0].cluster}",) if jobs and jobs[0].cluster else ()


def _sacct(on: tuple[str, ...], *words: str) -> Command:
    head = ("sacct", *on, "--allocations", "--noheader", "--parsable2")
    return Command((*head, f"--delimiter={SEPARATOR}", *words))


def _number(text: str, otherwise: int) -> int:
    match = re.match(r"\d{1,9}", text)
    return int(match.group()) if match else otherwise
