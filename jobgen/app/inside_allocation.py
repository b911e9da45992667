"""``submit --in``: a run inside an allocation that exists, checked before anything is sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from jobgen.errors import Diagnostic, JobgenError, Unfit, Unreachable, Usage
from jobgen.model.record import JobId, JobState
from jobgen.scheduler import get_scheduler
from jobgen.scheduler.allocation_facts import is_unknown, parse_job, show_job
from jobgen.shell import Command
from jobgen.submission import scripts, wire
from jobgen.wording import count

if TYPE_CHECKING:
    from jobgen.app.prepare import PreparedJob
    from jobgen.scheduler.allocation_facts import AllocationFacts
    from jobgen.transport import Transport

_QUEUED = {
    ("array",): "an array is several jobs: --set array=null",
    ("sweep",): "a sweep is several jobs: remove it, and set its values under vars",
    ("race",): "a race waits in several queues, and the allocation in none: remove it",
    ("after",): "the allocation waits for no other job: remove it",
    ("checkpoint", "requeue"): "it would requeue the allocation: --set checkpoint.requeue=false",
    ("checkpoint", "chain"): "it is several jobs: --set checkpoint.chain=null",
}
"""Keys that need a job of the run's own → what to do."""


def enter_allocation(ready: PreparedJob, job: str) -> PreparedJob:
    """The job as a step of the allocation of ``job``. Raises Usage, and Unfit for keys that need a
    job of its own."""
    if not (job.isascii() and job.isdecimal() and len(job) <= 10):
        raise Usage(f"--in {job}: expected the id of a job", hint="list yours: squeue --me")
    if ready.plan.scheduler != "slurm":
        raise Usage("--in needs a Slurm cluster", hint="choose one with -c")
    problems = [
        Diagnostic("J000", f"{'.'.join(path)} does not go with --in", place, hint)
        for path, hint in _QUEUED.items()
        if _is_set(ready, path) and (place := ready.job.find_place(*path))
    ]
    if problems:
        raise Unfit(*problems)
    nodes = ready.plan.shape.allocated.nodes
    return ready._replace(site=ready.site._replace(inside=job, nodes=nodes))


def _is_set(ready: PreparedJob, path: tuple[str, ...]) -> bool:
    value: object = ready.job.value
    for name in path:
        value = getattr(value, name, None)
    return bool(value)


def check_allocation(transport: Transport, ready: PreparedJob) -> None:
    """Raise Unfit unless the allocation runs, is the user's, and has what the job needs.

    Raises JobgenError for a job that Slurm does not list, Unreachable if it does not answer.
    """
    job = ready.site.inside
    scheduler = get_scheduler(ready.site)
    asked = {
        "job": show_job(job),
        "user": Command.of("id", "-un"),
        "steps": scheduler.query([JobId(int(job))]),
    }
    try:
        told = wire.index(wire.split_frames(transport.call(scripts.command(asked)).out))
    except wire.GarbledError:
        told = {}
    answer, user = wire.read_answer(told, "job"), wire.read_answer(told, "user").text.strip()
    facts = parse_job(answer.text) if answer.code == 0 else None
    if facts is None and not is_unknown(answer):
        raise Unreachable(f"{ready.site.cluster}: Slurm does not answer", hint="run it again later")
    if facts is None:
        hint = f"list yours: ssh {ready.site.login.host} squeue --me"
        raise JobgenError(f"{ready.site.cluster} has no job {job}", hint=hint)
    problems = [Diagnostic("J000", text, hint=hint) for text, hint in _compare(ready, facts, user)]
    if not problems and scheduler.parse_query(wire.read_answer(told, "steps")):
        message = f"another run of jobgen is inside job {job}: they would share its nodes and ports"
        problems = [Diagnostic("J000", message, hint="wait for its end, or cancel it: jobgen ls")]
    if problems:
        raise Unfit(*problems)


def _compare(ready: PreparedJob, facts: AllocationFacts, user: str) -> Iterator[tuple[str, str]]:
    """What is wrong with the allocation, and what to do."""
    job, shape = f"job {ready.site.inside}", ready.plan.shape.allocated
    if facts.user != user:
        yield f"{job} belongs to {facts.user}, not to {user}", "list yours: squeue --me"
        return
    if facts.state is not JobState.RUNNING:
        hint = "start one: salloc --no-shell" if facts.state.final else "wait until it runs"
        yield f"{job} is {facts.state}, not RUNNING", hint
        return
    if not (shape.min_nodes or shape.nodes) <= facts.nodes <= shape.nodes:
        hint = f"--set nodes={facts.nodes}, or an allocation of {count(shape.nodes, 'node')}"
        yield f"requests {count(shape.nodes, 'node')}; {job} has {facts.nodes}", hint
    if shape.gpus_per_node > facts.gpus:
        hint = f"--set gpus_per_node={facts.gpus}" if facts.gpus else "salloc --gpus-per-node"
        yield f"requests {shape.gpus_per_node} GPUs per node; {job} has {facts.gpus}", hint
    cpus = (shape.cpus_per_task or 1) * shape.tasks_per_node
    if cpus > facts.cpus:
        hint = "set cpus_per_task lower, or allocate whole nodes: salloc --exclusive"
        yield f"requests {cpus} CPUs per node; {job} has {facts.cpus}", hint
