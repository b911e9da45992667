"""The plan: one frozen value in which everything has been decided, each with its why."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from jobgen.errors import Diagnostic, Place
from jobgen.model.bundle import BundleFile
from jobgen.model.components import ComponentPlan
from jobgen.model.decision import NOWHERE, Decision, PlanCheck, Setting
from jobgen.model.part_plans import (
    CachesPlan,
    ContainerPlan,
    HubPlan,
    MonitorPlan,
    Mount,
    NotifyPlan,
    PreflightPlan,
    PreparePlan,
    StopPlan,
    TrackPlan,
)
from jobgen.named_tuple import NamedTuple
from jobgen.shell import Word


class Part(NamedTuple):
    """What one network, launcher, strategy or preflight contributes. resolve joins the parts.

    ``env`` values follow the grammar of ``shell.expandable``. ``args`` maps a program's word
    (``torchrun``, ``program``, ``srun``) to words added to its command line.
    """

    name: str
    directives: Mapping[str, Setting] = MappingProxyType({})
    env: Mapping[str, Setting] = MappingProxyType({})
    scripts: tuple[Setting, ...] = ()
    """Lines that source a script of somebody else's; the environment wins over what it sets."""
    setup: tuple[Setting, ...] = ()
    mounts: tuple[Mount, ...] = ()
    files: tuple[BundleFile, ...] = ()
    args: Mapping[str, tuple[Setting, ...]] = MappingProxyType({})
    checks: tuple[PlanCheck, ...] = ()
    notes: tuple[Diagnostic, ...] = ()


class Precedence(NamedTuple):
    """The environment that wins over the setup of the site and of the network's vendor."""

    gpus: tuple[str, ...]
    """What Slurm may have set for the task: kept as it is, or unset."""
    names: tuple[str, ...]
    """What the batch shell exports: kept as it is."""
    again: Mapping[str, Setting]
    """Variables that extend themselves, such as PATH: set once more, so both parts are there."""


class Packing(NamedTuple):
    """The one job of a packed sweep, in a plan whose shape is that of an element."""

    nodes: int
    gpus_per_node: int
    workers: int
    """Elements that run on a node at the same time."""
    indexes: str
    """Of the elements to run, such as ``3,7-9``."""
    whole_nodes: bool

    @property
    def slots(self) -> int:
        """Elements that run at the same time."""
        return self.nodes * self.workers


class Shape(NamedTuple):
    """How many of what."""

    nodes: int
    ranks_per_node: int
    gpus_per_node: int
    cpus_per_task: int | None
    tasks_per_node: int
    """Tasks srun starts on a node: 1 for launchers that start their own ranks."""
    seconds: int
    """The time limit."""
    gpu: str = ""
    """The GPU's name in the catalogue; empty where there is none."""
    min_nodes: int | None = None
    """The least nodes an elastic job goes on with; None where the world is fixed."""
    whole_nodes: bool = False
    """Whether the job is alone on its nodes: all CPUs and all memory are its own."""
    elements: int | None = None
    """Elements of a job array, each of this shape; None for a job that is no array."""
    packing: Packing | None = None
    """Of a packed sweep: the job that all elements share."""
    components: int = 1
    """Kinds of nodes in a heterogeneous job."""

    @property
    def world(self) -> int:
        """Number of ranks when all nodes are there."""
        return self.nodes * self.ranks_per_node

    @property
    def ranks_per_gpu(self) -> int:
        """Ranks that share a GPU; 1 where there are none, or one command uses them all."""
        return max(1, self.ranks_per_node // self.gpus_per_node) if self.gpus_per_node else 1

    @property
    def amd(self) -> bool:
        """Whether the GPUs are AMD's. Their names: MI250X, MI300X and their like."""
        return self.gpu.startswith("MI")

    @property
    def allocated(self) -> Shape:
        """The shape that Slurm allocates: of a packed sweep that of the job with all workers."""
        packing = self.packing
        if packing is None:
            return self
        return self._replace(
            nodes=packing.nodes,
            gpus_per_node=packing.gpus_per_node,
            ranks_per_node=packing.workers * self.ranks_per_node,
            tasks_per_node=packing.workers * self.tasks_per_node,
            elements=None,
            whole_nodes=packing.whole_nodes,
            packing=None,
        )

    @property
    def gpu_hours(self) -> float:
        """The most GPU-hours that one start can use."""
        if self.packing is not None:
            return self.allocated.gpu_hours
        return (self.elements or 1) * self.nodes * self.gpus_per_node * self.seconds / 3600


class Step(NamedTuple):
    """One thing the job does, in order. The training program is one step.

    ``text`` is plain bash, written by the launcher or by the user. ``once`` runs in the batch
    shell on the first node, ``node`` in ``node.sh``, ``rank`` once for every rank.
    """

    name: str
    scope: Literal["once", "node", "rank"]
    text: str
    background: bool = False
    why: str = ""
    place: Place = NOWHERE


class Estimate(NamedTuple):
    """What the plan is expected to need: bytes of the GPU that holds most, seconds of a step."""

    allocated: float
    """The peak of what torch allocates."""
    reserved: float
    """The peak of what torch reserves."""
    total: float
    """What nvidia-smi shows, with CUDA's and NCCL's own."""
    limit: float
    """The memory of the GPU."""
    verdict: Literal["fits", "tight", "no", "unknown"]
    note: str = ""
    """How much room it leaves, or why it does not fit."""
    needed: float = 0.0
    """Below this, memory runs out: ``total`` without the cache that the allocator gives back."""
    seconds: float = 0.0
    """Of a step of the optimizer; 0 where the speed is not known."""
    tokens: float = 0.0
    """Tokens of such a step, over all ranks."""
    gpu: str = ""
    """The GPU that it is estimated for."""


class Plan(NamedTuple):
    """Everything decided. ``plan``, ``render``, ``submit --dry-run`` and ``submit`` share it."""

    name: str
    cluster: str
    scheduler: Literal["slurm", "local"]
    shape: Shape
    launcher: Setting
    directives: Mapping[str, Setting]
    """sbatch long option without dashes → value ('' for a flag), in the order they are written."""
    env: Mapping[str, Setting]
    """Exported before srun, in order; values in the grammar of ``shell.expandable``."""
    secrets: tuple[str, ...]
    setup: tuple[Setting, ...]
    """Lines of bash run before the launcher, in its shell: the parts', the job's."""
    steps: tuple[Step, ...]
    files: tuple[BundleFile, ...]
    """Files beside the script and the launch files: hostfile recipe, ds_config.json …"""
    head: Setting
    """The rendezvous host, as bash: how the job finds it."""
    start: tuple[tuple[Word, ...], ...]
    """What the batch shell runs to start ``node.sh``, a line of words each."""
    extra: tuple[Setting, ...] = ()
    """Directives of site plug-ins, as the user wrote them."""
    submit_options: tuple[str, ...] = ()
    """Options for sbatch's command line: they hold ids of other runs, so no file may."""
    race: tuple[tuple[str, ...], ...] = ()
    """The words of each job that waits for this run; empty of a run with one job."""
    race_plans: tuple[tuple[int, Plan], ...] = ()
    """Of a race: the number of each entry whose shape is not this one, and its plan."""
    stop: StopPlan | None = None
    container: ContainerPlan | None = None
    site_setup: tuple[Setting, ...] = ()
    """Lines of the site and those that source a vendor's script; they run before ``setup``."""
    precedence: Precedence = Precedence((), (), MappingProxyType({}))
    """What those lines, and those outside of a container, cannot change."""
    node_setup: tuple[Setting, ...] = ()
    """Lines that the first rank of each node runs, while its others wait."""
    rank_setup: tuple[Setting, ...] = ()
    """Lines that every rank runs before its program."""
    prepare: PreparePlan | None = None
    caches: CachesPlan | None = None
    monitor: MonitorPlan | None = None
    notify: NotifyPlan | None = None
    preflight: PreflightPlan | None = None
    track: TrackPlan | None = None
    hub: HubPlan | None = None
    programs: tuple[ProgramPlan, ...] = ()
    """Several programs: steps one after another, or groups in the order in which they start; empty
    where ``steps`` has the only one."""
    rounds: int = 1
    """How often all steps run, one after another."""
    components: tuple[ComponentPlan, ...] = ()
    """The kinds of nodes of a heterogeneous job; empty if all are of one kind."""
    code_folder: str = ""
    """The directory on the cluster that the program runs in; empty if it is uploaded."""
    outputs: tuple[str, ...] = ()
    labels: Mapping[str, str] = MappingProxyType({})
    elements: tuple[Mapping[str, str], ...] = ()
    """One mapping of variables per array element; empty where the job is no array."""
    other: Mapping[str, Decision[object]] = MappingProxyType({})
    """Every other decision worth showing: nodes, ranks, memory …, by the name of its key."""
    configured: Mapping[str, Setting] = MappingProxyType({})
    """What was chosen in the program's own configuration: its key or option → value."""
    estimate: Estimate | None = None
    """None without ``train``, or if the model or the GPU is not known."""
    checks: tuple[PlanCheck, ...] = ()
    notes: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, str] = MappingProxyType({})
    """Label of each template, profile and spec used → sha256 of its text."""

    def list_all_steps(self) -> tuple[Step, ...]:
        """What happens, in order; of several programs, each part with the program's name."""
        inner = [
            step._replace(name=f"{program.name}: {step.name}")
            for program in self.programs
            for step in program.plan.steps
            if step.name not in ("before", "finally")
        ]
        first = [step for step in self.steps if step.name == "before"]
        return (*first, *inner, *(step for step in self.steps if step not in first))

    @property
    def containers(self) -> tuple[ContainerPlan, ...]:
        """The containers of its programs, one for each image."""
        images: dict[str, ContainerPlan] = {}
        for plan in [each.plan for each in self.programs] or [self]:
            if plan.container is not None:
                images.setdefault(plan.container.image, plan.container)
        return tuple(images.values())

    @property
    def has_groups(self) -> bool:
        """Whether its programs run at the same time."""
        return any(program.group for program in self.programs)

    @property
    def world(self) -> int:
        """Ranks that run at the same time: those of all groups."""
        if not self.has_groups:
            return self.shape.world
        return sum(program.plan.shape.world for program in self.programs)

    @property
    def starts(self) -> int:
        """How often the job starts at most."""
        return self.stop.starts if self.stop else 1

    @property
    def gpu_hours_per_start(self) -> float:
        """The most GPU-hours that one start can use."""
        shapes = [each.shape for each in self.components] or [self.shape]
        others = [plan.gpu_hours_per_start for _, plan in self.race_plans]
        return max(sum(shape.gpu_hours for shape in shapes), *others, 0)

    @property
    def gpu_hours(self) -> float:
        """The most GPU-hours that all starts can use."""
        return self.starts * self.gpu_hours_per_start


class Readiness(NamedTuple):
    """What has to be true before the groups after one start."""

    kind: Literal["port", "file", "command"]
    value: str
    """The port, empty for that of the group; a path or bash."""
    seconds: int
    """How long to wait for it."""
    place: Place = NOWHERE


class GroupRole(NamedTuple):
    """What a group does beside the other groups of its job."""

    first: int
    """The index of its first node among those of the job."""
    on: str = ""
    """The group whose nodes it shares; empty if it has nodes of its own."""
    until: str = ""
    """The group with which it ends; empty if the job waits for it."""
    ready: Readiness | None = None
    variables: tuple[str, ...] = ()
    """Variables about all groups, which every group has."""
    component: int | None = None
    """The component of a heterogeneous job that it runs in; None if there is only one."""
    offset: int = 0
    """Nodes of the components before its own."""

    def describe(self) -> str:
        """Its component, whose nodes it shares and with which group it ends, such as ``, until
        train``."""
        component = "" if self.component is None else str(self.component)
        words = (("component", component), ("on", self.on), ("until", self.until))
        return "".join(f", {word} {name}" for word, name in words if name)


class ProgramPlan(NamedTuple):
    """One of the programs of a job, decided as if it were a job of its own."""

    name: str
    plan: Plan
    files: tuple[BundleFile, ...]
    """Those that its ranks or its launcher read."""
    place: Place = NOWHERE
    group: GroupRole | None = None
    """None for a step: steps run one after another, groups at the same time."""
