"""Commands out, text in: what a scheduler is told and what it answers. No IO here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from jobgen.model.record import JobId, Observation, Site
    from jobgen.shell import Command, Result


@dataclass(frozen=True, slots=True)
class Found:
    """A job that carries our comment: its id, the run's token, the attempt that made it."""

    job: JobId
    token: str
    attempt: int


class Scheduler(Protocol):
    """The port. Every method is pure."""

    def submit(
        self, entry: str, *, directory: str, token: str, attempt: int, options: Sequence[str] = ()
    ) -> Command:
        """The sbatch command of one attempt; ``options`` are further command-line words."""

    def submitted(self, result: Result) -> JobId | None:
        """The id in sbatch's answer; None where there is none, whatever the exit code."""

    def refused(self, result: Result) -> bool:
        """Whether the answer is a definite refusal (an allow-list; all else is ambiguous)."""

    def query(self, jobs: Sequence[JobId]) -> Command:
        """One command that tells about all these jobs that the scheduler still knows."""

    def states(self, result: Result) -> Mapping[JobId, Observation]:
        """What it told. Unknown words become JobState.UNKNOWN; nothing raises."""

    def history(self, jobs: Sequence[JobId]) -> Command | None:
        """One command for jobs that are gone from the queue (sacct); None without accounting."""

    def past(self, result: Result) -> Mapping[JobId, Observation]:
        """What history told; empty where accounting is switched off."""

    def find(self) -> Command:
        """All jobs of this user with their comments."""

    def found(self, result: Result) -> tuple[Found, ...] | None:
        """Ours among them; None where the scheduler did not answer."""

    def cancel(self, jobs: Sequence[JobId], *, signal: str = "") -> Command:
        """Cancel, or with ``signal`` send it to the batch shell only. The exit code proves nothing."""

    def test_only(self, entry: str, options: Sequence[str] = ()) -> Command:
        """Validate a script on the controller without submitting it."""


def scheduler_for(site: Site) -> Scheduler:
    """The scheduler of a site."""
    if site.scheduler == "local":
        from jobgen.scheduler.local import LocalScheduler

        return LocalScheduler(root=site.root)
    from jobgen.scheduler.slurm import SlurmScheduler

    return SlurmScheduler(accounting=site.accounting)
