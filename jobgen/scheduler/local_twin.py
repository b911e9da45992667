"""This machine as a scheduler: Slurm's own commands, said to the stand-ins that ship with jobgen.

The words and the answers are Slurm's, so everything that reads or writes them is SlurmScheduler's.
What differs is who answers: this Python and ``jobgen.payload.localslurm``, with the state of the
jobs beside the run directories.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from jobgen.model.observation import Observation
from jobgen.model.record import JobId
from jobgen.payload import localslurm
from jobgen.scheduler import Allocation, Attempt, OwnJob, SchedulerSettings, Tested
from jobgen.scheduler.slurm import SlurmScheduler
from jobgen.shell import Command, Raw, Result, quote_expandable

STATE = ".local"
"""The folder under the root of all runs where the stand-ins keep what they know."""


@dataclass(frozen=True, slots=True)
class LocalScheduler:
    """The adapter of the local cluster. ``root`` may hold ``$HOME`` and other names; ``nodes`` are
    those of its profile, or 0."""

    root: str
    nodes: int = 0
    accounting: Literal["none"] = "none"
    slurm: SlurmScheduler = field(default_factory=lambda: SlurmScheduler(accounting="none"))

    def submit(self, attempt: Attempt, options: Sequence[str] = ()) -> Command:
        """The sbatch command of one attempt."""
        return self._here(self.slurm.submit(attempt, options))

    def parse_submit(self, result: Result) -> JobId | None:
        """The id that sbatch printed."""
        return self.slurm.parse_submit(result)

    def is_refusal(self, result: Result) -> bool:
        """Whether sbatch was definitely refused."""
        return self.slurm.is_refusal(result)

    def query(self, jobs: Sequence[JobId]) -> Command:
        """One squeue for all these jobs; ended ones stay visible for a week."""
        return self._here(self.slurm.query(jobs))

    def parse_query(self, result: Result) -> Mapping[JobId, Observation] | None:
        """What it told."""
        seen = self.slurm.parse_query(result)
        if seen is None:
            return None
        return {job: replace(observed, source="local") for job, observed in seen.items()}

    def query_history(self, jobs: Sequence[JobId]) -> Command | None:
        """There is no accounting: squeue remembers long enough."""
        return self.slurm.query_history(jobs)

    def parse_history(self, result: Result) -> Mapping[JobId, Observation] | None:
        """There is no accounting."""
        return self.slurm.parse_history(result)

    def find(self) -> Command:
        """All jobs of this user with their comments."""
        return self._here(self.slurm.find())

    def find_states(self, jobs: Sequence[JobId]) -> Command:
        """The states of all jobs, and whose they are."""
        return self._here(self.slurm.find_states(jobs))

    def find_past(self, days: int) -> Command | None:
        """There is no accounting."""
        return self.slurm.find_past(days)

    def parse_own_jobs(self, result: Result) -> tuple[OwnJob, ...] | None:
        """Ours among them."""
        return self.slurm.parse_own_jobs(result)

    def cancel(self, jobs: Sequence[JobId], *, signal: str = "") -> Command:
        """scancel; with ``signal`` to the batch shell only."""
        return self._here(self.slurm.cancel(jobs, signal=signal))

    def find_allocations(self, job: JobId) -> Command:
        """squeue, for the nodes of a job."""
        return self._here(self.slurm.find_allocations(job))

    def parse_allocations(self, result: Result) -> tuple[Allocation, ...] | None:
        """What it told."""
        return self.slurm.parse_allocations(result)

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
        """The command as it is: every node is this machine, and the terminal is here already."""
        del allocation, node, tty, unbuffered, name
        return command

    def test_only(self, entry: str, options: Sequence[str] = ()) -> Command:
        """``sbatch --test-only``."""
        return self._here(self.slurm.test_only(entry, options))

    def parse_test(self, result: Result) -> Tested:
        """What it said."""
        return self.slurm.parse_test(result)

    def show_config(self) -> Command:
        """``scontrol show config``."""
        return self._here(self.slurm.show_config())

    def parse_config(self, result: Result) -> SchedulerSettings:
        """The lifetimes in it."""
        return self.slurm.parse_config(result)

    def _here(self, command: Command) -> Command:
        # isolated and without site-packages: neither PYTHONPATH nor a broken .pth gets in between
        program = (sys.executable, "-I", "-S", localslurm.FOLDER)
        nodes = ("--nodes", str(self.nodes)) if self.nodes else ()
        return Command((*program, "--state", _state(self.root), *nodes, *command.words))


def _state(root: str) -> str | Raw:
    folder = f"{root.rstrip('/')}/{STATE}"
    return Raw(quote_expandable(folder)) if "$" in folder else folder
