"""The two files and the facts, and how a decision names the line that it came from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobgen.errors import Diagnostic, Place
from jobgen.model.race import list_times
from jobgen.model.units import LONGEST, Walltime
from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jobgen.model.cluster import ClusterProfile
    from jobgen.model.facts import Facts
    from jobgen.model.job import JobSpec
    from jobgen.model.loaded import Loaded
    from jobgen.model.plan import GroupRole, Shape
    from jobgen.model.race import RaceOptions

Key = str | int


class Inputs(NamedTuple):
    """What everything is decided from."""

    spec: Loaded[JobSpec]
    profile: Loaded[ClusterProfile]
    facts: Facts
    step: str = ""
    """The name of the step or group that the job stands for; empty where it has one program."""
    group: GroupRole | None = None
    """What that group does beside the others; None for a step, or a job without groups."""
    most_gpus: int | None = None
    """GPUs that the job of this group requests on each node; None if the group is the job."""
    components: int = 1
    """Kinds of nodes in the job of this group."""
    all_nodes: int | None = None
    """Nodes of all groups together, for a group."""
    entries: tuple[RaceOptions, ...] = ()
    """The entries of a race that have the shape of this job, if not all have it."""

    @property
    def job(self) -> JobSpec:
        """The job's values."""
        return self.spec.value

    @property
    def cluster(self) -> ClusterProfile:
        """The cluster's values."""
        return self.profile.value

    @property
    def local(self) -> bool:
        """Whether the nodes are simulated on this machine."""
        return self.cluster.scheduler == "local"

    @property
    def time(self) -> Walltime:
        """The job's time limit, or that of the partition. ``shape`` reports where neither is known:
        the longest that there is, which no other check finds too short."""
        return self.job.time or self.cluster.limits.default_time or Walltime(LONGEST)

    @property
    def times(self) -> tuple[Walltime, ...]:
        """The time limits of the jobs of a race; else that of the only job."""
        return list_times(self.entries or self.job.race, self.time)

    def has_older_slurm(self, release: tuple[int, ...]) -> bool:
        """Whether the cluster is known to have an older Slurm than this release."""
        parts = (self.cluster.slurm_version or "").split(".")
        there = tuple(int(part) for part in parts if part.isdigit())
        return bool(there) and there < release

    def has_written(self, *path: Key) -> bool:
        """Whether the job, or ``--set``, has this key."""
        return path in self.spec.places or path in self.spec.overrides

    def widen_network(self, shape: Shape) -> Shape:
        """The shape with all nodes that its ranks may talk to: those of the other groups, too."""
        return shape._replace(nodes=max(shape.nodes, self.all_nodes or 0))

    def cite_job(self, *path: Key) -> Place:
        """``job.yaml:12``, without the folders: wherever it lies, a job gives equal bytes."""
        place = self.spec.cite(*path)
        if place.kind == "option":
            return place
        return place._replace(file=place.file.rpartition("/")[2])

    def cite_cluster(self, *path: Key) -> Place:
        """``cluster a100x16:31``, wherever the profile was found, or the one that it extends."""
        place = self.profile.find_place(*path)
        name = self.cluster.name
        if place.file != self.profile.label:
            name = get_profile_name(place.file)
        return Place(f"cluster {name}", place.line)

    def diagnose_job(self, code: str, message: str, *path: Key, hint: str = "") -> Diagnostic:
        """A problem in the job file."""
        return Diagnostic(code, message, self.spec.find_place(*path), hint, also=())


def get_profile_name(label: str) -> str:
    """The name by which -c finds the profile of this label."""
    return label.rpartition("/")[2].removesuffix(".yaml").removesuffix(".yml")
