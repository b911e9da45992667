"""Commands out, text in: what a scheduler is told and what it answers. No IO here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from jobgen.model.observation import format_mark
from jobgen.model.record import JobState
from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jobgen.model.observation import Observation
    from jobgen.model.record import JobId, Site
    from jobgen.shell import Command, Result


class Attempt(NamedTuple):
    """One attempt to submit a run: what sbatch is given, and where."""

    entry: tuple[str, ...]
    """The script, relative to the run directory, and its arguments."""
    directory: str
    token: str
    number: int


@dataclass(frozen=True, slots=True)
class OwnJob:
    """A job that may be ours: its id, and the mark and attempt that its comment names.

    Where the site strips comments ``mark`` is empty and ``workdir`` decides.
    """

    job: JobId
    mark: str
    attempt: int
    workdir: str = ""
    array: int = 0
    """Of a large sweep: the number of its array. The first one stands for the run."""

    def belongs_to(self, token: str) -> bool:
        """Whether it is a job of the run with this token."""
        if self.mark:
            # jobs of the first versions carry the token itself
            return self.mark in (format_mark(token), token)
        return self.workdir.endswith("-" + token[:8])


class Allocation(NamedTuple):
    """The nodes of one running job, of one element of an array, or of one component."""

    job: int
    """The number that the scheduler's commands take: an element of an array has its own."""
    nodes: tuple[str, ...]
    cluster: str = ""
    """Of several that one controller knows; empty for its own."""
    component: int | None = None
    """Of a heterogeneous job: its index; None if the job has only one."""


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """What of the scheduler's own configuration the protocol depends on; Slurm's defaults."""

    ttl: int = 300
    """Seconds for which a request that left a client may still be accepted."""
    min_job_age: int = 300
    """Seconds for which an ended job stays in the queue's answers."""
    message_timeout: int = 10
    accounting: bool | None = None
    """Whether past jobs can be asked for; None where the answer does not say."""
    version: str = ""


@dataclass(frozen=True, slots=True)
class Tested:
    """What a validation without submitting said: whether it would be taken, and the words."""

    ok: bool
    text: str
    start: str = ""


class Scheduler(Protocol):
    """The port. Every method is pure."""

    def submit(self, attempt: Attempt, options: Sequence[str] = ()) -> Command:
        """The sbatch command of one attempt; ``options`` are further command-line words.

        A ``--comment=…`` among them is the user's; ours is appended to it.
        """

    def parse_submit(self, result: Result) -> JobId | None:
        """The id in sbatch's answer; None where there is none, whatever the exit code."""

    def is_refusal(self, result: Result) -> bool:
        """Whether the answer is a definite refusal (an allow-list; all else is ambiguous)."""

    def query(self, jobs: Sequence[JobId]) -> Command:
        """One command that tells about all these jobs that the scheduler still knows.

        All of one cluster: ``JobId.cluster`` of the first is taken for all.
        """

    def parse_query(self, result: Result) -> Mapping[JobId, Observation] | None:
        """What it told; None where the scheduler did not answer.

        Unknown words become JobState.UNKNOWN; nothing raises.
        """

    def query_history(self, jobs: Sequence[JobId]) -> Command | None:
        """One command for jobs that are gone from the queue (sacct); None without accounting."""

    def parse_history(self, result: Result) -> Mapping[JobId, Observation] | None:
        """What history told; None where it did not answer, as with accounting switched off."""

    def find(self) -> Command:
        """All jobs of this user with their comments."""

    def find_states(self, jobs: Sequence[JobId]) -> Command:
        """All jobs of this user, one a line that begins with the state and names whose it is.

        On the cluster of the first of ``jobs``.
        """

    def find_past(self, days: int) -> Command | None:
        """Jobs of this user in the accounting of the last days; None without accounting."""

    def parse_own_jobs(self, result: Result) -> tuple[OwnJob, ...] | None:
        """Ours among them; None where the scheduler did not answer."""

    def cancel(self, jobs: Sequence[JobId], *, signal: str = "") -> Command:
        """Cancel, or with ``signal`` send it to the batch shell only. Its exit code proves
        nothing."""

    def find_allocations(self, job: JobId) -> Command:
        """Which nodes a job has now: one line for each of its components or elements."""

    def parse_allocations(self, result: Result) -> tuple[Allocation, ...] | None:
        """Those that run; None where the scheduler did not answer."""

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
        """Run a command on a node of a running job, beside its ranks.

        ``unbuffered``: what it prints arrives at once, in lines or not.
        """

    def test_only(self, entry: str, options: Sequence[str] = ()) -> Command:
        """Validate a script on the controller without submitting it."""

    def parse_test(self, result: Result) -> Tested:
        """What the validation said."""

    def show_config(self) -> Command:
        """The command that shows the scheduler's configuration."""

    def parse_config(self, result: Result) -> SchedulerSettings:
        """The settings in it; Slurm's defaults where it does not say."""


def get_scheduler(site: Site) -> Scheduler:
    """The scheduler of a site."""
    if site.scheduler == "local":
        from jobgen.scheduler.local_twin import LocalScheduler

        return LocalScheduler(root=site.root, nodes=site.nodes)
    if site.inside:
        from jobgen.scheduler.allocation_steps import AllocationScheduler

        return AllocationScheduler(inside=site.inside, nodes=site.nodes)
    from jobgen.scheduler.slurm import SlurmScheduler

    return SlurmScheduler(accounting=site.accounting)


LIVE = (
    # of a job with several parts, the first of these that a part is in tells about the whole
    JobState.RUNNING,
    JobState.COMPLETING,
    JobState.CONFIGURING,
    JobState.SUSPENDED,
    JobState.REQUEUED,
    JobState.PENDING,
    JobState.UNKNOWN,
    JobState.NODE_FAIL,
    JobState.BOOT_FAIL,
    JobState.OUT_OF_MEMORY,
    JobState.FAILED,
    JobState.TIMEOUT,
    JobState.DEADLINE,
    JobState.PREEMPTED,
    JobState.CANCELLED,
)


def merge_observations(job: JobId, parts: Iterable[Observation]) -> Observation | None:
    """One observation of a job out of those of its array tasks or components; None of none."""
    mine = [
        part
        for part in parts
        if part.job.job == job.job
        and (job.task is None or part.job.task in (job.task, None))
        and (job.component is None or part.job.component in (job.component, None))
    ]
    if not mine:
        return None
    rank = {state: n for n, state in enumerate(LIVE)}
    mine.sort(key=lambda part: part.job.component or 0)
    first = min(mine, key=lambda part: rank.get(part.state, len(rank)))
    nodes = first.nodes
    if job.component is None and first.job.component is not None:
        nodes = ",".join(part.nodes for part in mine if part.nodes)
    return replace(first, job=job, nodes=nodes)
