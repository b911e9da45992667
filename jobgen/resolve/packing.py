"""A packed sweep: many elements in one job, each on a part of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobgen.model.plan import Packing, Shape
from jobgen.resolve import allocation
from jobgen.resolve.inputs import Inputs
from jobgen.shell import Raw, Word
from jobgen.wording import count, join_words

if TYPE_CHECKING:
    from jobgen.resolve.shape import Sized


def is_packed(look: Inputs) -> bool:
    """Whether all elements of a sweep run in one job."""
    return look.job.sweep is not None and look.job.sweep.pack is not None


def decide_packing(look: Inputs, gpus: int, units: int, sized: Sized) -> Packing | None:
    """The job of a packed sweep, whose elements divide the units of a node: GPUs, or ranks where
    there are none. None of any other job."""
    sweep = look.job.sweep
    if sweep is None or sweep.pack is None:
        return None
    each, unit = sweep.pack.gpus, "GPU" if gpus else "rank"
    place = look.cite_job("sweep", "pack")
    if units % each:
        message = f"sweep.pack.gpus: {each} does not divide the {count(units, unit)} per node"
        hint = f"choose one of {join_words(_list_divisors(units), 'or')}"
        if each > units:
            message = f"sweep.pack.gpus: {each}, but the job has {count(units, unit)} per node"
            hint = "an element of a packed sweep runs on one node; remove pack to use several nodes"
        problem = look.diagnose_job("J297", message, "sweep", "pack", "gpus", hint=hint)
        sized.problems.append(problem)
    workers = max(1, units // each)
    made = Packing(
        nodes=look.job.nodes,
        gpus_per_node=gpus,
        workers=workers,
        indexes=sweep.format_indexes(),
        whole_nodes=allocation.is_alone(look, gpus),
    )
    why = f"each worker runs one element after the other, on {count(each, unit)}"
    sized.decide("pack", count(made.slots, "worker"), why, place)
    return made


def describe_element(look: Inputs, gpus: int, ranks: int, sized: Sized) -> None:
    """The ranks of an element, in the place of those of a node."""
    sized.decisions.pop("ranks_per_node", None)
    why = "one rank per GPU" if gpus and gpus == ranks else "its share of the node's ranks"
    sized.decide("ranks_per_element", ranks, why, look.cite_job("sweep", "pack"))


def _list_divisors(number: int) -> list[str]:
    return [str(each) for each in range(1, number + 1) if number % each == 0]


def place_step(shape: Shape) -> tuple[Word, ...]:
    """The words of srun that keep the step of an element to its part of its node."""
    if shape.packing is None:
        return ()
    where = Raw('--nodelist="$SLURM_JOB_NODELIST"')
    return (where, "--exact", "--mem=0", Raw('--job-name="$JOBGEN_STEP"'))
