"""``bench scaling``: the user's own program at each size, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from jobgen.app.benching.allreduce import KEY
from jobgen.app.prepare import PreparedJob, prepare
from jobgen.app.submit import submit
from jobgen.app.world import World
from jobgen.bench.scaling import Scaling, ScalingRun, compute_scaling
from jobgen.errors import Usage
from jobgen.model.record import JobId, RunRecord
from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jobgen.app.jobs import RunView

Kind = Literal["weak", "strong"]


class ScalingRequest(NamedTuple):
    """What the command line asks for."""

    job: Path
    sizes: tuple[int, ...]
    kind: Kind | None = None
    """What becomes of ``train.global_batch``: grows with the sizes, or stays; None: any."""
    gpus: bool = False
    """Sizes are numbers of GPUs of one node, not of nodes."""


def prepare_sizes(
    world: World, wanted: ScalingRequest, cluster: str | None, sets: Sequence[str] = ()
) -> tuple[PreparedJob, ...]:
    """The job at every size, each checked before any is sent. Raises as ``prepare`` does."""
    counts = sorted(set(wanted.sizes))
    base = prepare(world, wanted.job, cluster, sets, with_upload=False)
    batch = _read_batch(base, wanted.kind) if wanted.kind else None
    found = []
    for count in counts:
        more = list(list_sets(base, count, gpus=wanted.gpus))
        if batch and wanted.kind == "weak":
            more.append(f"train.global_batch={batch * count // counts[0]}")
        found.append(prepare(world, wanted.job, cluster, [*sets, *more]))
    return tuple(found)


def list_sets(made: PreparedJob, count: int, *, gpus: bool) -> tuple[str, ...]:
    """The values of ``--set`` for one size: so many nodes, or so many GPUs of one node, which are
    ranks where nodes have no GPUs. The job's other key for the number of ranks is unset."""
    if not gpus:
        return (f"nodes={count}",)
    keys = ("gpus_per_node", "procs_per_node")
    key, other = keys if made.profile.value.nodes.gpus_per_node else keys[::-1]
    unset = (f"{other}=null",) if (other,) in made.job.places else ()
    return ("nodes=1", f"{key}={count}", *unset)


def chain(
    world: World, made: Sequence[PreparedJob], sent: Callable[[RunRecord], None]
) -> tuple[RunRecord, ...]:
    """Submit every size so that each begins when the one before has ended, however it has."""
    records: list[RunRecord] = []
    for one in made:
        before = records[-1].job if records else None
        about = {KEY: {"kind": "scaling", "nodes": one.plan.shape.nodes}}
        record = submit(world, add_dependency(one, before), about=about)
        records.append(record)
        sent(record)
    return tuple(records)


def add_dependency(made: PreparedJob, job: JobId | None) -> PreparedJob:
    """A prepared job that waits for ``job`` too: on sbatch's command line, over the file's own."""
    if job is None:
        return made
    plan = made.plan
    own = [w for w in plan.submit_options if w.startswith("--dependency=")]
    rest = [w for w in plan.submit_options if w not in own]
    theirs = plan.directives.get("dependency")
    words = [w.partition("=")[2] for w in own] or ([theirs.value] if theirs else [])
    joined = ",".join([*words, f"afterany:{JobId(job.job)}"])
    options = (*rest, f"--dependency={joined}")
    return made._replace(plan=plan._replace(submit_options=options))


def read(world: World, refs: Sequence[str]) -> tuple[Scaling, tuple[RunRecord, ...]]:
    """What the runs of these names have reported, judged; their states are asked anew."""
    from jobgen.app.jobs import show

    shown = [show(world, ref) for ref in refs]
    return compute_scaling([_run(one) for one in shown]), tuple(one.record for one in shown)


def _run(shown: RunView) -> ScalingRun:
    record, watched = shown.record, shown.watched
    shape = record.shape
    nodes, ranks = int(shape.get("nodes", 1)), int(shape.get("ranks_per_node", 1))
    seen = watched.overall.throttled if watched and watched.overall else None
    told = (record.alias, str(record.state), record.report)
    return ScalingRun(nodes, nodes * ranks, *told, throttled=seen or 0.0)


def _read_batch(made: PreparedJob, kind: Kind) -> int:
    """The job's own ``train.global_batch``, which is that of the smallest size."""
    train = made.job.value.train
    batch = train.global_batch if train else None
    if batch is None:
        raise Usage(
            f"--{kind} needs train.global_batch in the job file",
            hint="set it, or leave out --weak and --strong: the program then decides",
        )
    return batch
