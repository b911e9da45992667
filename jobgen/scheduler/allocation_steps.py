"""A run as a step of an allocation that exists: started by srun, and cancelled without its job."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jobgen.model.observation import Observation, format_mark
from jobgen.model.record import JobId, JobState
from jobgen.scheduler import Attempt, OwnJob
from jobgen.scheduler.slurm import SlurmScheduler
from jobgen.scheduler.slurm_format import COMMENT, SEPARATOR, parse_seconds, split_rows
from jobgen.shell import Command, Result

_FORMAT = SEPARATOR.join(("%i", "%N", "%M", "%j"))
_STEP = re.compile(r"(\d{1,10})\.(\d{1,9})", re.ASCII)


@dataclass(frozen=True, slots=True)
class AllocationScheduler(SlurmScheduler):
    """Slurm's commands for a run inside an allocation. A step is the ``component`` of its id; what
    has none is the user's whole allocation, which is never cancelled."""

    inside: str = ""
    """The id of the allocation."""
    nodes: int = 1

    def submit(self, attempt: Attempt, options: Sequence[str] = ()) -> Command:
        """The start of the batch script as a step. Options of sbatch have no meaning here."""
        del options
        name, count = f"jobgen:{format_mark(attempt.token)}:{attempt.number}", str(self.nodes)
        script = ("bash", "submit/in_allocation.sh", *attempt.entry[1:])
        size = (f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1", "--cpus-per-task=1")
        where = (f"--jobid={self.inside}", "--overlap", *size)
        how = ("--cpu-bind=none", "--mpi=none", "--gres=none", "--wait=0", "--kill-on-bad-exit=1")
        log = (f"--output=logs/job-{self.inside}.out", "--open-mode=append", "--input=none")
        srun = ("srun", *where, *how, *log, f"--job-name={name}", *script)
        return Command(("sh", "submit/enter_allocation.sh", self.inside, *srun))

    def is_refusal(self, result: Result) -> bool:
        """Whether srun has ended before the script claimed the run: then nothing follows."""
        return result.code not in (0, 255) and self.parse_submit(result) is None

    def query(self, jobs: Sequence[JobId]) -> Command:
        """The running steps of these allocations."""
        ids = ",".join(dict.fromkeys(str(job.job) for job in jobs))
        # an id twice: squeue fails for one that is gone, but not for two
        words = ("squeue", "--steps", "--noheader", f"--jobs={ids},{ids}", f"--format={_FORMAT}")
        return Command(words)

    def parse_query(self, result: Result) -> Mapping[JobId, Observation] | None:
        """The steps that jobgen started; None where squeue did not answer."""
        if result.code != 0:
            return {} if "Invalid job id specified" in result.error_text else None
        steps: dict[JobId, Observation] = {}
        for step, nodes, elapsed, name in split_rows(result.text, 4):
            match = _STEP.fullmatch(step.strip())
            if match and COMMENT.search(name):
                job = JobId(int(match[1]), component=int(match[2]))
                steps[job] = Observation(
                    job,
                    JobState.RUNNING,
                    raw="RUNNING",
                    nodes=nodes.strip(),
                    elapsed=parse_seconds(elapsed),
                    comment=name,
                )
        return steps

    def query_history(self, jobs: Sequence[JobId]) -> Command | None:
        """None: the accounting of the allocation tells nothing of the run."""
        del jobs
        return None

    def find(self) -> Command:
        """The steps of all allocations of this user."""
        return Command.of("squeue", "--me", "--steps", "--noheader", f"--format={_FORMAT}")

    def find_past(self, days: int) -> Command | None:
        """None, as for ``query_history``."""
        del days
        return None

    def parse_own_jobs(self, result: Result) -> tuple[OwnJob, ...] | None:
        """Those that jobgen started; None where squeue did not answer."""
        steps = self.parse_query(result)
        if steps is None:
            return None
        marks = ((job, COMMENT.search(steps[job].comment)) for job in sorted(steps, key=str))
        return tuple(OwnJob(job, mark[1], int(mark[2])) for job, mark in marks if mark)

    def cancel(self, jobs: Sequence[JobId], *, signal: str = "") -> Command:
        """SIGTERM to these steps: the script ends its own ones, and records its end."""
        steps = [f"{job.job}.{job.component}" for job in jobs if job.component is not None]
        words = ("scancel", f"--signal={signal or 'TERM'}", *steps)
        return Command(words if steps else ("true",))
