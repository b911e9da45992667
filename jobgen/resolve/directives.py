"""The #SBATCH lines: jobgen's own, the cluster's defaults, the job's options over them."""

from __future__ import annotations

from jobgen.errors import Place
from jobgen.model.decision import SelfEvident, Setting, cite_rule
from jobgen.model.part_plans import StopPlan
from jobgen.model.plan import Shape
from jobgen.resolve import allocation, notifying
from jobgen.resolve.inputs import Inputs
from jobgen.resolve.packing import is_packed
from jobgen.resolve.shape import Sized

REQUEUE_ROOM = 30
"""Seconds between the end of the grace and the end of the job, in which it is requeued, or hands
over to the next job of its chain."""


_LOGS = {False: "logs/job-%j.out", True: "logs/job-%A_%a.out"}
"""The batch shell's log, by whether the job is an array."""


def plan_stop(look: Inputs, sized: Sized) -> StopPlan | None:
    """The pre-timeout signal, where the job asks for one."""
    asked = look.job.checkpoint
    if asked is None or is_packed(look):
        return None
    # Slurm may send it up to a minute early and never late, so the grace itself needs no more.
    resumes = asked.requeue or asked.chain is not None
    lead = asked.grace.seconds + (REQUEUE_ROOM if resumes else 0)
    shortest = min(look.times)
    if lead >= shortest.seconds:
        found = look.diagnose_job(
            "J208",
            f"checkpoint.grace: {asked.grace} is not shorter than time: {shortest}",
            "checkpoint",
            "grace",
            hint="increase time, or reduce grace to what saving takes",
        )
        sized.problems.append(found)
    made = StopPlan(
        signal=asked.signal,
        grace=asked.grace.seconds,
        lead=lead,
        requeue=asked.requeue,
        max_requeues=asked.max_requeues,
        chain=asked.chain or 0,
    )
    room = f" + {REQUEUE_ROOM}s for the {'requeue' if asked.requeue else 'hand-over'}"
    room = room if resumes else ""
    why = "the pre-timeout signal is sent this long before the time limit"
    place = look.cite_job("checkpoint", "grace")
    sized.decide("checkpoint", f"{asked.signal} {asked.grace.format_short()}{room}", why, place)
    if asked.requeue:
        written = look.has_written("checkpoint", "max_requeues")
        place = look.cite_job("checkpoint", "max_requeues") if written else cite_rule("requeue")
        why = f"at most {made.starts} start{'' if made.starts == 1 else 's'}"
        sized.decide("requeue", f"max_requeues {asked.max_requeues}", why, place)
    if asked.chain is not None:
        why = "each job waits for the end of the one before (afterany) and resumes"
        place = look.cite_job("checkpoint", "chain")
        sized.decide("chain", f"{asked.chain} jobs", why, place)
    return made


def build_directives(
    look: Inputs, shape: Shape, warning: StopPlan | None, sized: Sized
) -> dict[str, Setting]:
    """Every directive once, in a fixed order: the name, the site's, the sizes, the run."""
    theirs = allocation.merge_options(look)
    theirs.pop("gres", None)
    shape = shape.allocated
    return (
        {"job-name": Setting(look.job.name, SelfEvident.JOB_NAME, look.cite_job("name"))}
        | theirs
        | notifying.build_mail_options(look)
        | _tasks(look, shape)
        | allocation.ask_gpus(look, shape)
        | _share(look, shape, sized)
        | _run(look, shape, warning)
    )


def _tasks(look: Inputs, shape: Shape) -> dict[str, Setting]:
    by_job = look.cite_job
    nodes = f"{shape.min_nodes}-{shape.nodes}" if shape.min_nodes else str(shape.nodes)
    found = {"nodes": Setting(nodes, SelfEvident.AS_ASKED, by_job("nodes"))}
    if shape.min_nodes:
        # with --ntasks-per-node Slurm gives the least of the range, however many are idle (22.05)
        why = "keep the job running when a node is lost"
        return found | {"no-kill": Setting("", why, by_job("nodes"))}
    tasks = "one task per rank" if shape.tasks_per_node > 1 else "one task per node"
    if is_packed(look):
        tasks = "the tasks of the workers of a node"
    found["ntasks-per-node"] = Setting(str(shape.tasks_per_node), tasks, cite_rule("launcher"))
    return found


def _cite_time(look: Inputs) -> Place:
    if look.job.time is None:
        return look.cite_cluster("limits", "default_time")
    return look.cite_job("time")


def _run(look: Inputs, shape: Shape, warning: StopPlan | None) -> dict[str, Setting]:
    """What the run itself needs: time, log, warning, requeue, a clean environment."""
    packed = is_packed(look)
    requeue = packed or (warning is not None and warning.requeue)
    why_requeue = "no requeue, not even after a node failure"
    place = cite_rule("requeue")
    if packed:
        why_requeue = "requeue: unfinished elements run again"
    elif requeue:
        why_requeue = "requeue: the job resumes from its checkpoint"
        place = look.cite_job("checkpoint", "requeue")
    found = {
        "time": Setting(look.time.format_slurm(), SelfEvident.TIME_LIMIT, _cite_time(look)),
        "output": Setting(
            _LOGS[shape.elements is not None], "the batch script's log", cite_rule("logs")
        ),
        "open-mode": Setting("append", "append to the log after a requeue", cite_rule("logs")),
    }
    if warning:
        found["signal"] = Setting(
            f"B:{warning.signal}@{warning.lead}",
            "pre-timeout signal to the batch shell only; it would kill torchrun",
            look.cite_job("checkpoint", "grace"),
        )
    name = "requeue" if requeue else "no-requeue"
    found[name] = Setting("", why_requeue, place)
    found["export"] = Setting(
        "NONE", "do not inherit the submitting shell's environment", cite_rule("environment")
    )
    return found


def _share(look: Inputs, shape: Shape, sized: Sized) -> dict[str, Setting]:
    """Nodes, CPUs and memory, where they are decided; else the site's own defaults hold."""
    found: dict[str, Setting] = {}
    exclusive = allocation.ask_exclusive(look, shape.gpus_per_node)
    if exclusive is not None:
        found["exclusive"] = exclusive
    if shape.cpus_per_task is not None:
        cpus = sized.decisions["cpus_per_task"]
        found["cpus-per-task"] = Setting(str(shape.cpus_per_task), cpus.why, cpus.place)
    memory = allocation.ask_memory(look, shape)
    if memory is not None:
        found["mem"] = memory
    return found


def build_dependency(look: Inputs) -> tuple[str, ...]:
    """``--dependency`` for sbatch's command line: ids of other runs are in no file."""
    known = look.facts.after or {}
    ids = [known[name] for name in look.job.after if known.get(name)]
    if not ids:
        return ()
    theirs = allocation.merge_options(look).get("dependency")
    ours = "afterok:" + ":".join(ids)
    return (f"--dependency={ours},{theirs.value}" if theirs else f"--dependency={ours}",)
