"""How many CPUs a task of the job gets, and whose number that is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobgen.errors import Diagnostic
from jobgen.model.decision import SelfEvident, cite_rule
from jobgen.model.launchers import get_facts
from jobgen.named_tuple import NamedTuple
from jobgen.resolve import allocation
from jobgen.resolve.inputs import Inputs

if TYPE_CHECKING:
    from jobgen.resolve.shape import Sized


class NodeTasks(NamedTuple):
    """What shares the CPUs of a node."""

    gpus: int
    ranks: int
    tasks: int
    whole_node: bool

    @property
    def ranks_per_task(self) -> int:
        """Ranks of a task."""
        return self.ranks // self.tasks


def decide_cpus(look: Inputs, node: NodeTasks, sized: Sized) -> int | None:
    """CPUs of one Slurm task; None leaves it to the site, or takes all of a whole node."""
    if look.job.cpus_per_task is not None:
        return _cpus_asked(look, look.job.cpus_per_task, node, sized)
    if node.whole_node:
        why = "the job has whole nodes: all CPUs that Slurm counts"
        sized.decide("cpus_per_task", "all", why, allocation.RULE)
        return None
    share = _cpus_shared(look, node, sized)
    if share is not None or look.local:
        return share
    message = f"CPUs per rank unknown: requesting 1 for each of the {node.ranks} ranks of a node"
    hint = "set cpus_per_task"
    if look.cluster.nodes.cpus is None:
        hint += f", or nodes.cpus in the profile of {look.cluster.name}"
    place = look.spec.find_place("gpus_per_node")
    sized.notes.append(Diagnostic("J226", message, place, hint, severity="warning"))
    if node.ranks_per_task == 1:
        return None
    why = "1 per rank; Slurm's default is 1 for the whole task"
    sized.decide("cpus_per_task", node.ranks_per_task, why, cite_rule("one-cpu-a-rank"))
    return node.ranks_per_task


def _cpus_asked(look: Inputs, asked: int, node: NodeTasks, sized: Sized) -> int:
    """What the job asks for each rank, multiplied out."""
    there, total = look.cluster.nodes.cpus, asked * node.ranks_per_task
    why: str = SelfEvident.AS_ASKED
    if get_facts(look.job.launcher.type or "").task == "command":
        why = "per node: the command starts its own ranks"
    elif node.ranks_per_task > 1:
        why = f"{asked} for each of the task's {node.ranks_per_task} ranks"
    if there is not None and asked * node.ranks > there:
        message = f"cpus_per_task: {asked}"
        if node.ranks > 1:
            message += f" for {node.ranks} ranks requests {asked * node.ranks} CPUs"
        message += f", but a node of {look.cluster.name} has {there}"
        message += f" ({look.cite_cluster('nodes', 'cpus')})"
        hint = f"set cpus_per_task: {max(1, there // node.ranks)} or fewer"
        sized.problems.append(look.diagnose_job("J205", message, "cpus_per_task", hint=hint))
    sized.decide("cpus_per_task", total, why, look.cite_job("cpus_per_task"))
    return total


def _cpus_shared(look: Inputs, node: NodeTasks, sized: Sized) -> int | None:
    """The node's CPUs by the job's share of its GPUs; None where either number is not known."""
    there, gpus = look.cluster.nodes.cpus, look.cluster.nodes.gpus_per_node
    if there is None or (gpus and not node.gpus) or (look.local and not node.gpus):
        return None
    part = f"in proportion to the GPUs used ({node.gpus} of {gpus})" if gpus else "all of them"
    total = max(1, there * (node.gpus or 1) // (gpus or 1) // node.tasks)
    why = f"the node's CPUs, {part}"
    sized.decide("cpus_per_task", total, why, look.cite_cluster("nodes", "cpus"))
    return total
