"""What is written down of a job: the request, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

ENDED = frozenset(("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"))


class Settings(NamedTuple):
    """slurm.conf: NAME=NUMBER lines, by Slurm's names where it has one, in any case."""

    nodes: int = 8
    """Simulated nodes; a job takes whole ones."""
    killwait: int = 5
    """Seconds between SIGTERM and SIGKILL."""
    minjobage: int = 7 * 86400
    """Seconds that an ended job is remembered."""
    requeuedelay: int = 1
    """Seconds before a requeued job may start again; Slurm waits two minutes."""
    firstjobid: int = 0
    """0 draws one: two local clusters on a machine then seldom want the same rendezvous port."""


class Request(NamedTuple):
    """What was asked of sbatch."""

    id: int
    name: str
    nodes: int
    directory: str
    submit_directory: str
    command: str
    submitted: float
    user: str = ""
    arguments: Sequence[str] = ()
    ntasks: int | None = None
    ntasks_per_node: int | None = None
    cpus_per_task: int | None = None
    limit: int | None = None
    output: str = ""
    error: str = ""
    input: str = ""
    append: bool = False
    umask: int = 0o022
    comment: str = ""
    partition: str = "local"
    account: str = ""
    qos: str = ""
    dependency: str = ""
    kill_invalid: bool = False
    begin: float = 0.0
    hold: bool = False
    requeue: bool = True
    warning: Sequence[int] = ()
    """Signal number, seconds before the limit, 1 for the batch shell only."""
    export: str = ""
    environment: Mapping[str, str] = {}
    path: str = ""
    """The PATH of the job behind the folder of stand-ins."""


class Status(NamedTuple):
    """What became of a job."""

    state: str = "PENDING"
    reason: str = "None"
    nodes: Sequence[int] = ()
    eligible: float = 0.0
    start: float = 0.0
    end: float = 0.0
    exit: int = 0
    signal: int = 0
    restarts: int = 0
    supervisor: int = 0
    supervisor_start: str = ""
    host: str = ""
    boot: str = ""

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen."""
        return self.state in ENDED


class Job(NamedTuple):
    """A job as squeue sees it."""

    request: Request
    status: Status
