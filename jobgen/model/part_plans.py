"""What has been decided about each part of a job that has settings of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from jobgen.errors import Place
from jobgen.model.decision import NOWHERE, Setting
from jobgen.model.preparation import StagedData
from jobgen.named_tuple import NamedTuple
from jobgen.shell import Word


class Mount(NamedTuple):
    """A path of the node made visible in the container."""

    source: str
    target: str
    readonly: bool = False


class ContainerPlan(NamedTuple):
    """The container that every step runs in."""

    runtime: Literal["pyxis", "apptainer", "docker", "shifter", "edf"]
    image: str
    mounts: tuple[Mount, ...] = ()
    args: tuple[str, ...] = ()
    workdir: str = ""
    """Where the program starts, inside; empty means the job's own directory."""
    setup: tuple[Setting, ...] = ()
    """Lines that run on every node before it is entered."""
    before: str = ""
    """Lines of bash that find the job's devices, right before ``enter``."""
    login: str = ""
    """What the batch shell runs for a login of a registry, where srun enters the container."""
    why: str = ""
    """A comment above ``enter``."""
    enter: tuple[tuple[Word, ...], ...] = ()
    """What a node runs to start ``node.sh`` inside; empty where srun enters the container."""
    record: tuple[Word, ...] = ()
    """What the batch shell runs to record which image it is; empty if that is not known there."""
    place: Place = NOWHERE


class PreparePlan(NamedTuple):
    """What runs once on each node, outside a container, before the program."""

    start: tuple[tuple[Word, ...], ...]
    """What the batch shell runs, a line of words each."""
    staged: tuple[StagedData, ...] = ()
    outside: tuple[Setting, ...] = ()
    """Lines of setup, where srun enters the container."""
    place: Place = NOWHERE


class CachesPlan(NamedTuple):
    """The folder on each node in which compilers keep their caches."""

    digest: str
    """Of the software that the caches are made by: part of the folder's name."""
    variables: Mapping[str, str]
    """Variable → its folder below that one."""
    remove: tuple[tuple[Word, ...], ...]
    """What the batch shell runs at the end; empty if they are gone with the container."""


class StopPlan(NamedTuple):
    """The pre-timeout signal to the batch shell, its lead, and what follows."""

    signal: str
    grace: int
    """Seconds between the warning and the end that the program may use."""
    lead: int
    """Seconds before the end at which Slurm is asked to warn: the grace, and room to requeue."""
    requeue: bool
    max_requeues: int
    chain: int = 0
    """Jobs of the chain, each of which is one start; 0 without a chain."""
    ranks: str = ""
    """The signal that each rank's program gets; empty if it looks for the stop file."""
    step: tuple[tuple[Word, ...], ...] = ()
    """What the batch shell runs to send it."""

    @property
    def starts(self) -> int:
        """How often the job starts at most."""
        return self.chain or (1 + self.max_requeues if self.requeue else 1)

    @property
    def resumes(self) -> bool:
        """Whether the job starts again after it has stopped: requeued, or as the next of its
        chain."""
        return self.requeue or self.chain > 0


class MonitorPlan(NamedTuple):
    """What looks at every node beside the program: how often, and the step that does it."""

    every: int
    """Seconds between two samples; more of them where a node's file grows long."""
    start: tuple[tuple[Word, ...], ...]
    """What the batch shell runs beside the program, a line of words each."""
    place: Place = NOWHERE


class NotifyPlan(NamedTuple):
    """What the job sends about itself, and when."""

    on: tuple[str, ...]
    url: str = ""
    """Where JSON is posted to; empty if a secret holds it, or nothing is posted."""
    secret: str = ""
    """The secret that holds the URL."""
    command: tuple[str, ...] = ()
    """Words in the grammar of ``shell.expandable``."""
    place: Place = NOWHERE


class TrackPlan(NamedTuple):
    """The folders in the working directory that trackers write to."""

    folders: tuple[str, ...]


class HubPlan(NamedTuple):
    """A model that must be in the Hugging Face cache, where the login host can tell."""

    model: str
    places: Mapping[str, str]
    """Variables of the job that say where the cache is, in the grammar of ``shell.expandable``."""


class PreflightPlan(NamedTuple):
    """What is checked on every node before the program starts, and what follows from a bad one."""

    expect: tuple[Setting, ...]
    """``what=value``, as ``preflight.sh`` takes it."""
    stops: bool
    """Whether a bad node ends the job; an elastic one only names it."""
    excludes: bool
    """Whether the job is requeued without it."""
    spare: int
    """Nodes of the cluster that may be excluded before too few are left."""
    measures: tuple[str, ...] | None = None
    """Words for ``preflight_full.sh``; None where no all-reduce is measured."""
    place: Place = NOWHERE
