"""What is remembered of a run. Whatever is defined here is paid for by every ``jobgen ls``."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jobgen.model.cause import FailureCause
    from jobgen.model.events import CodeRecord, RankFailure, Silence, StepRecord
    from jobgen.model.record_data import Submission


class JobState(StrEnum):
    """Slurm's words for what a job is doing, and four of ours for what happens around it."""

    PLANNED = "PLANNED"
    """Written down; nothing has been sent."""
    SUBMITTING = "SUBMITTING"
    """Sent, or being sent; the answer is not known yet."""
    REJECTED = "REJECTED"
    """The scheduler refused it for good."""
    LOST = "LOST"
    """It cannot be told what became of it; said so, never guessed."""
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    COMPLETING = "COMPLETING"
    CONFIGURING = "CONFIGURING"
    REQUEUED = "REQUEUED"
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    NODE_FAIL = "NODE_FAIL"
    PREEMPTED = "PREEMPTED"
    BOOT_FAIL = "BOOT_FAIL"
    DEADLINE = "DEADLINE"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    UNKNOWN = "UNKNOWN"
    """A word this version does not know: never final, the raw word is kept beside it."""

    @property
    def final(self) -> bool:
        """Whether nothing more will happen to the job."""
        return self in FINAL


FINAL = frozenset(
    {
        JobState.REJECTED,
        JobState.LOST,
        JobState.COMPLETED,
        JobState.CANCELLED,
        JobState.FAILED,
        JobState.TIMEOUT,
        JobState.NODE_FAIL,
        JobState.PREEMPTED,
        JobState.BOOT_FAIL,
        JobState.DEADLINE,
        JobState.OUT_OF_MEMORY,
    }
)


class JobId(NamedTuple):
    """A scheduler's id, structured: job, array task, component of a het job, cluster."""

    job: int
    task: int | None = None
    component: int | None = None
    cluster: str = ""

    @classmethod
    def parse(cls, text: str) -> JobId:
        """``123``, ``123_4``, ``123+1`` or ``123;cluster``. ValueError on anything else."""
        head, _, cluster = text.strip().partition(";")
        body, plus, component = head.partition("+")
        job, under, task = body.partition("_")
        if not all(p.isascii() and p.isdigit() for p in (job, task or "0", component or "0")):
            raise ValueError(f"no job id: {text!r}")
        element = int(task) if under else None
        return cls(int(job), element, int(component) if plus else None, cluster)

    @classmethod
    def read(cls, text: str) -> JobId | None:
        """The id that ``parse`` reads; None for anything else."""
        try:
            return cls.parse(text)
        except ValueError:
            return None

    def __str__(self) -> str:
        task = "" if self.task is None else f"_{self.task}"
        component = "" if self.component is None else f"+{self.component}"
        cluster = f";{self.cluster}" if self.cluster else ""
        return f"{self.job}{task}{component}{cluster}"


class Login(NamedTuple):
    """How to get to the machine that submits. ``local`` needs nothing else."""

    backend: Literal["local", "paramiko", "openssh"]
    host: str = ""
    user: str = ""
    port: int | None = None
    fingerprint: str = ""
    """SHA256:… of the host key, where the profile pins it."""
    auth: tuple[str, ...] = ("agent", "key")
    known_hosts_too: bool = False
    """Whether known_hosts must have the key even where the fingerprint fits: the fingerprint comes
    from a file that may be somebody else's."""


class Site(NamedTuple):
    """All that the later verbs need of a cluster; stored with the run, so a changed profile
    cannot lose a job."""

    cluster: str
    scheduler: Literal["slurm", "local"]
    login: Login
    root: str
    """Where run directories go; ``$NAME`` expands on the other side."""
    accounting: Literal["auto", "sacct", "none"] = "auto"
    inside: str = ""
    """The job whose allocation a run is a step of; empty for a job of its own."""
    nodes: int = 0
    """How many nodes that allocation has, or the machine of a local scheduler is; 0 if not set."""

    def data(self) -> dict[str, Any]:
        """Plain data that JSON can hold; ``from_data`` reads it back."""
        return {**self._asdict(), "login": self.login._asdict()}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Site:
        """The site that ``data`` gave; keys of a later version are passed over."""
        known = _known(cls, data)
        login = _known(Login, known["login"])
        return cls(**{**known, "login": Login(**{**login, "auth": tuple(login.get("auth", ()))})})


class RunRecord(NamedTuple):
    """One run as the ledger has it. ``token`` is its identity, ``alias`` its name here."""

    token: str
    alias: str
    name: str
    site: Site
    digest: str
    created: float
    """Seconds since 1970, of this machine's clock."""
    directory: str = ""
    """The run directory on the other side, as ``pwd -P`` gave it; empty before it exists."""
    job: JobId | None = None
    state: JobState = JobState.PLANNED
    raw: str = ""
    reason: str = ""
    nodes: str = ""
    exit: str = ""
    started: str = ""
    elapsed: int | None = None
    left: int | None = None
    restarts: int = 0
    updated: float = 0.0
    """When the state was last heard, seconds since 1970."""
    ended: bool = False
    """Known to have ended, by the scheduler or the exit marker; or LOST."""
    submission: Submission = {}  # noqa: RUF012  never changed in place
    """The state of the submission protocol and what the job recorded, as plain data."""
    shape: Mapping[str, Any] = {}
    """nodes, ranks_per_node, seconds … for the screens."""

    @property
    def settled(self) -> bool:
        """Ended for good: never asked about again. What is LOST may show up after all."""
        return self.ended and self.state is not JobState.LOST

    @property
    def folder(self) -> str:
        """The name of the run directory, without a colon, which a mount cannot have."""
        return f"{self.name.replace(':', '-')}-{self.token[:8]}"

    @property
    def report(self) -> Mapping[str, float]:
        """What the program reported of itself: ``peak_allocated_bytes`` and the like."""
        found = self.submission.get("report")
        return found if isinstance(found, dict) else {}

    @property
    def unfit(self) -> tuple[tuple[int, str, str], ...]:
        """What the job's preflights found: the start, the node, and what is wrong with it."""
        found = self.submission.get("preflight")
        return tuple((s, n, w) for s, n, w in found) if isinstance(found, list) else ()

    @property
    def failures(self) -> tuple[RankFailure, ...]:
        """The ranks that failed, of each start the first one first."""
        from jobgen.model.events import RankFailure

        return tuple(RankFailure(*values) for values in self.submission.get("failures", ()))

    @property
    def steps(self) -> tuple[str, ...]:
        """The names of the job's steps or groups; empty if it has one program."""
        return tuple(map(str, self.shape.get("groups", ()) or self.shape.get("steps", ())))

    @property
    def part_kind(self) -> Literal["step", "group"]:
        """What one of several programs is called."""
        return "group" if self.shape.get("groups") else "step"

    @property
    def step_runs(self) -> tuple[StepRecord, ...]:
        """The steps or groups that have begun, of each start in their order."""
        from jobgen.model.events import StepRecord

        return tuple(StepRecord(*values) for values in self.submission.get("steps", ()))

    @property
    def codes(self) -> tuple[CodeRecord, ...]:
        """The code that each start ran, if it stays on the cluster."""
        from jobgen.model.events import CodeRecord

        return tuple(CodeRecord(*values) for values in self.submission.get("codes", ()))

    @property
    def silences(self) -> tuple[Silence, ...]:
        """Ranks that ended well while the others seem to wait for them."""
        from jobgen.model.events import Silence

        return tuple(Silence(*values) for values in self.submission.get("silences", ()))

    @property
    def cause(self) -> FailureCause | None:
        """Why the newest start failed, if its logs were read."""
        from jobgen.model.cause import FailureCause

        values = self.submission.get("cause")
        return FailureCause.read(values) if values else None

    @property
    def job_file(self) -> str:
        """The path of its job file on the machine that submitted it; empty if unknown."""
        return str(self.shape.get("file", ""))

    @property
    def code_folder(self) -> str:
        """The directory on the cluster that its code stays in; empty if it was uploaded."""
        return str(self.shape.get("code", ""))

    @property
    def bundle_folder(self) -> str:
        """Where the scripts that it runs are, below its directory."""
        return str(self.shape.get("bundle", "bundle"))

    @property
    def profile(self) -> str:
        """The path of its cluster profile, if it was named by its path; else the cluster."""
        return str(self.shape.get("profile", "")) or self.site.cluster

    @property
    def sets(self) -> tuple[str, ...]:
        """The values of ``--set`` that it was submitted with."""
        return tuple(map(str, self.shape.get("sets", ())))

    @property
    def elements(self) -> Mapping[str, int]:
        """Of an array: how many elements are in each state."""
        found = self.submission.get("elements")
        return found if isinstance(found, dict) else {}

    @property
    def element_states(self) -> Mapping[str, str]:
        """Of an array: state → the elements that are in it, as ``3,7-9``; not those that wait."""
        found = self.submission.get("element_states", self.submission.get("unsuccessful"))
        return found if isinstance(found, dict) else {}

    @property
    def unsuccessful(self) -> Mapping[str, str]:
        """Of an array: state → the elements that ended in it, as ``3,7-9``, without success."""
        failed = (state for state in FINAL if state is not JobState.COMPLETED)
        states = self.element_states
        return {state: states[state] for state in sorted(failed) if state in states}

    def data(self) -> dict[str, Any]:
        """Plain data that JSON can hold; ``from_data`` reads it back."""
        job = None if self.job is None else str(self.job)
        return {**self._asdict(), "site": self.site.data(), "job": job, "state": str(self.state)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> RunRecord:
        """The record that ``data`` gave. A state of a later version becomes UNKNOWN."""
        known = _known(cls, data)
        job = known.get("job")
        state = known.get("state", "")
        return cls(
            **{
                **known,
                "site": Site.from_data(known["site"]),
                "job": JobId.parse(job) if job else None,
                "state": JobState.__members__.get(state, JobState.UNKNOWN),
            }
        )


def _known(kind: type[NamedTuple], data: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key in kind._fields}
