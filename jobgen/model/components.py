"""A heterogeneous job: one component of Slurm for each kind of nodes that its groups need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from jobgen.model.decision import Setting
from jobgen.model.part_plans import PreflightPlan
from jobgen.named_tuple import NamedTuple
from jobgen.shell import Raw, Word
from jobgen.wording import count

if TYPE_CHECKING:
    from jobgen.model.plan import Shape

FILE = "components.sh"
CARRIED = frozenset({"account", "exclude", "mem", "qos", "reservation"})
"""Options that sbatch also gives to the components after the one that has them. Tried: 22.05."""
OPTIONS = CARRIED | {
    *("partition", "constraint", "prefer", "nodelist", "contiguous", "switches", "spread-job"),
    *("exclusive", "oversubscribe", "overcommit", "distribution", "network", "tmp", "mincpus"),
    *("mem-per-cpu", "mem-per-gpu", "mem-bind", "gres", "gres-flags", "gpu-freq", "cpu-freq"),
    *("core-spec", "thread-spec", "threads-per-core", "cores-per-socket", "sockets-per-node"),
    *("extra-node-info", "hint", "use-min-nodes", "segment"),
}
"""Options about the nodes, which a component may have of its own; the others hold for the job."""
SIZES = frozenset(
    {"nodes", "ntasks-per-node", "gpus-per-node", "cpus-per-task"},
)
"""Options that jobgen writes for each component, beside those above."""


class ComponentPlan(NamedTuple):
    """What one component requests, and what the job does on its nodes."""

    shape: Shape
    first: int
    """The index of its first node among those of the job."""
    directives: Mapping[str, Setting]
    """Those that it has of its own; of the first component, those of the whole job too."""
    extra: tuple[Setting, ...]
    head: Setting
    """The address of its first node, as bash."""
    gpus: tuple[Word, ...]
    """Words of srun for a step that shares its GPUs."""
    preflight: PreflightPlan | None

    def describe(self, times: str) -> str:
        """``2 nodes x 8 A100-SXM4-80GB``, or ``1 node`` without GPUs."""
        shape = self.shape
        node = count(shape.nodes, "node")
        if not shape.gpus_per_node:
            return node
        return f"{node} {times} {shape.gpus_per_node} {shape.gpu or 'GPU'}"


def choose_starter(shape: Shape) -> tuple[Word, ...]:
    """What starts a step on all nodes of the job; its options and the command follow."""
    if shape.components > 1:  # sites may forbid a step that spans components
        return ("bash", Raw(f'"$JOBGEN_BUNDLE_DIR/{FILE}"'))
    return ("srun",)


def choose_gpu_sharer(shape: Shape) -> tuple[Word, ...]:
    """The same for a step that shares the GPUs of its nodes."""
    return (*choose_starter(shape), *(("gpus",) if shape.components > 1 else ()))


def count_tasks(shape: Shape, nodes: Word | None = None) -> tuple[Word, ...]:
    """The options of that step for one task on every node, or on this number of nodes."""
    if shape.components > 1:  # each component has its own number
        return ()
    if nodes is None:
        nodes = Raw('"$SLURM_NNODES"') if shape.min_nodes is not None else str(shape.nodes)
    return (Raw(f"--nodes={nodes}"), Raw(f"--ntasks={nodes}"))
