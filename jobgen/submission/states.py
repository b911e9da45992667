"""The states of a submission, what can come back, and what is to be done: plain frozen values."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from jobgen.model.record import JobId, RunRecord

if TYPE_CHECKING:
    from jobgen.model.record_data import SubmissionState


class Phase(StrEnum):
    """How far a submission has come. Each is written down before anything leaves."""

    PLANNED = "PLANNED"
    STAGED = "STAGED"
    SUBMITTING = "SUBMITTING"
    RESOLVING = "RESOLVING"
    SUBMITTED = "SUBMITTED"
    """An id is known; the scheduler may still forget it in a crash."""
    CONFIRMED = "CONFIRMED"
    REJECTED = "REJECTED"
    CANCELLED = "CANCELLED"
    LOST = "LOST"

    @property
    def open(self) -> bool:
        """Whether the machine has work to do before an id or an end is known."""
        return self in (Phase.PLANNED, Phase.STAGED, Phase.SUBMITTING, Phase.RESOLVING)


@dataclass(frozen=True, slots=True)
class State:
    """Where a submission stands. All times are of the other side's clock."""

    phase: Phase = Phase.PLANNED
    directory: str = ""
    attempt: int = 0
    starts: int = 0
    """How often this attempt was started without leaving its mark."""
    job: JobId | None = None
    staged: float = 0.0
    died: float = 0.0
    """Since when the process of this attempt is known to be gone."""
    accepted: float = 0.0
    """When the id became known."""
    lost: tuple[JobId, ...] = ()
    """Ids that were handed out and then forgotten by the scheduler."""
    others: tuple[JobId, ...] = ()
    """Accepted copies beside the one that counts."""
    cancel: bool = False
    why: str = ""
    gave_up: bool = False
    """Whether jobgen itself rejected it, and not the scheduler."""

    def data(self) -> SubmissionState:
        """Plain data that JSON can hold."""
        return {
            "phase": str(self.phase),
            "directory": self.directory,
            "attempt": self.attempt,
            "starts": self.starts,
            "job": None if self.job is None else str(self.job),
            "staged": self.staged,
            "died": self.died,
            "accepted": self.accepted,
            "lost": [str(job) for job in self.lost],
            "others": [str(job) for job in self.others],
            "cancel": self.cancel,
            "why": self.why,
            "gave_up": self.gave_up,
        }

    @classmethod
    def of(cls, record: RunRecord) -> State:
        """The state that the run database keeps of a run."""
        return cls.from_data(record.submission.get("state", {}))

    @classmethod
    def from_data(cls, data: SubmissionState) -> State:
        """The state that ``data`` gave; of nothing, the first state."""
        if not data:
            return cls()
        names = {f.name for f in fields(cls)}
        known: dict[str, Any] = {key: value for key, value in data.items() if key in names}
        return cls(
            **{
                **known,
                "phase": Phase(known["phase"]),
                "job": JobId.parse(known["job"]) if known.get("job") else None,
                "lost": tuple(JobId.parse(job) for job in known.get("lost", ())),
                "others": tuple(JobId.parse(job) for job in known.get("others", ())),
            }
        )


# What came back.


@dataclass(frozen=True, slots=True)
class Begin:
    """A process takes the submission up, for the first time or again."""


@dataclass(frozen=True, slots=True)
class Staged:
    """The run directory stands complete under its name."""

    directory: str
    now: float
    shared: str = ""
    """A directory above it that a group may write to; empty if there is none."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The symbolic link of an attempt: who made it, and when."""

    host: str
    pid: int
    time: float


@dataclass(frozen=True, slots=True)
class Report:
    """What the run directory knows of one attempt."""

    attempt: int
    now: float
    host: str = ""
    mark: Mark | None = None
    code: int | None = None
    ended: float = 0.0
    printed: JobId | None = None
    """The id in sbatch's output."""
    recorded: JobId | None = None
    """The id in the file ``jobid``."""
    claim: JobId | None = None
    """The id of the job that claimed the run directory."""
    refused: bool = False
    error: str = ""
    cancel: bool = False
    """The cancel marker is there."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A report, and what the scheduler and the process table say."""

    report: Report
    alive: bool = False
    jobs: tuple[JobId, ...] | None = None
    """Jobs whose comment names this run; None where the scheduler did not answer."""
    past: tuple[JobId, ...] = ()
    """The same out of the accounting."""
    ttl: float = 300.0
    message_timeout: float = 10.0


@dataclass(frozen=True, slots=True)
class RunDirectoryMissing:
    """The run directory is not there, or is another run's."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """A look at a job that has an id, some time after it was given."""

    now: float
    answered: bool
    """Whether the scheduler answered at all."""
    queued: bool = False
    """Whether it knows the id, as a job of this run."""
    past: bool = False
    """Whether the accounting knows how it ended."""
    claim: JobId | None = None
    min_job_age: float | None = None
    """How long ended jobs stay known; None where that could not be asked."""
    cancel: bool = False


@dataclass(frozen=True, slots=True)
class CancelAsked:
    """The user wants it gone."""


Fact = Begin | Staged | Report | Resolved | RunDirectoryMissing | Sighting | CancelAsked


# What is to be done. The last effect of a step may bring back a fact; those before it do not.


@dataclass(frozen=True, slots=True)
class Stage:
    """Send the run directory."""


@dataclass(frozen=True, slots=True)
class Start:
    """Run sbatch as attempt number ``attempt``; ``forget`` is an id known to be void."""

    attempt: int
    forget: JobId | None = None


@dataclass(frozen=True, slots=True)
class Resolve:
    """Look into attempt number ``attempt``, after ``wait`` seconds."""

    attempt: int
    wait: float = 0.0


@dataclass(frozen=True, slots=True)
class Record:
    """Write the id into the run directory."""

    job: JobId


@dataclass(frozen=True, slots=True)
class Drop:
    """Cancel these jobs: copies that must not run."""

    jobs: tuple[JobId, ...]


@dataclass(frozen=True, slots=True)
class Bury:
    """Put the cancel marker into the run directory: nothing of this run starts from now on."""


@dataclass(frozen=True, slots=True)
class Discard:
    """Remove the run directory: the run was refused for good."""


Effect = Stage | Start | Resolve | Record | Drop | Bury | Discard
