"""How many nodes, ranks, GPUs and CPUs, for how long, and which launcher starts them."""

from __future__ import annotations

from jobgen.errors import Diagnostic, Place
from jobgen.launch.foreign_runners import suggest_keys
from jobgen.model.array import measure_array
from jobgen.model.decision import Decision, SelfEvident, Setting, cite_rule
from jobgen.model.launchers import DEFAULT, LAUNCHERS, SINGLE, find_launchers
from jobgen.model.plan import Shape
from jobgen.resolve import allocation
from jobgen.resolve.cpus import NodeTasks, decide_cpus
from jobgen.resolve.gpu_sharing import check_sharing, count_ranks
from jobgen.resolve.inputs import Inputs
from jobgen.resolve.packing import decide_packing, describe_element, is_packed
from jobgen.resolve.program import Program
from jobgen.wording import join_words


class Sized:
    """The shape as it is being decided, with why, and what was found wrong on the way."""

    def __init__(self) -> None:
        self.problems: list[Diagnostic] = []
        self.notes: list[Diagnostic] = []
        self.decisions: dict[str, Decision[object]] = {}

    def decide(self, key: str, value: object, why: str, place: Place) -> None:
        """Keep a decision for the plan."""
        self.decisions[key] = Decision(value, why, place)


def decide_shape(look: Inputs, program: Program, sized: Sized) -> tuple[Shape, Setting]:
    """The shape and the launcher. Problems are added to ``sized``."""
    _nodes(look, sized)
    gpus, ranks = _gpus(look, sized)
    packing = decide_packing(look, gpus, gpus or ranks, sized)
    nodes = look.job.nodes
    if packing is not None:
        nodes, ranks = 1, ranks // packing.workers
        gpus //= packing.workers
        describe_element(look, gpus, ranks, sized)
    launcher = _launcher(look, program, ranks * nodes, sized)
    facts = LAUNCHERS[launcher.value]
    if facts.task == "command" and ranks > 1:
        why = f"{launcher.value} runs the command once per node"
        sized.decide("ranks_per_node", 1, why, launcher.place)
        ranks = 1
    tasks = ranks if facts.task == "rank" else 1
    most = gpus if look.most_gpus is None else look.most_gpus
    whole = packing is None and allocation.is_alone(look, most)
    cpus = decide_cpus(look, NodeTasks(gpus, ranks, tasks, whole), sized)
    _time(look, sized)
    _memory(look, sized)
    elements = _elements(look, sized)
    _race(look, sized)
    gpu = look.cluster.nodes.gpu or ""
    size = Shape(
        nodes=nodes,
        ranks_per_node=ranks,
        gpus_per_node=gpus,
        cpus_per_task=cpus,
        tasks_per_node=tasks,
        seconds=max(look.times).seconds,
        gpu=gpu if gpus else "",
        min_nodes=look.job.min_nodes,
        whole_nodes=whole,
        elements=elements,
        packing=packing,
        components=look.components,
    )
    check_sharing(look, size, launcher.value, sized)
    return size, launcher


def _elements(look: Inputs, sized: Sized) -> int | None:
    """Elements of a job array."""
    indexes = allocation.find_array(look)
    if indexes is None:
        return None
    array = measure_array(indexes.value)
    if is_packed(look) and look.job.min_nodes:
        message = "a packed sweep needs a fixed number of nodes"
        sized.problems.append(look.diagnose_job("J297", message, "nodes", hint="set nodes: N"))
    key, why = "array", "each element runs the job once"
    if is_packed(look):
        key, why = "elements", "each runs once, on one of the workers"
    sized.decide(key, array.describe(), why, indexes.place)
    if look.local:
        key = "array" if look.job.sweep is None else "sweep"
        message = f"{key}: the local cluster runs one job per submit, no array and no sweep"
        hint = f"choose a Slurm cluster with -c; to try one here, remove {key} and set its values "
        hint += "under vars"
        sized.problems.append(look.diagnose_job("J228", message, key, hint=hint))
    return array.elements


def _race(look: Inputs, sized: Sized) -> None:
    if look.job.race and look.local:
        message = "race: the local cluster has one queue"
        hint = "choose a Slurm cluster with -c, or remove race"
        sized.problems.append(look.diagnose_job("J298", message, "race", hint=hint))


def _nodes(look: Inputs, sized: Sized) -> None:
    asked, there = look.job.nodes, look.cluster.nodes.count
    word = f"{look.job.min_nodes} to {asked}" if look.job.min_nodes else str(asked)
    sized.decide("nodes", word, SelfEvident.AS_ASKED, look.cite_job("nodes"))
    limit, key = there, ("nodes", "count")
    if look.cluster.limits.nodes is not None and look.cluster.limits.nodes < there:
        limit, key = look.cluster.limits.nodes, ("limits", "nodes")
    if asked > limit:
        where = look.cite_cluster(*key)
        least = look.job.min_nodes
        subject, hint = f"nodes: {asked}", f"set nodes: {limit} or fewer"
        if least and least < limit:
            hint = f"write {least}:{limit}"
        elif asked == look.all_nodes:
            subject = f"the groups have {asked} nodes"
            hint = f"let them have {limit} or fewer together"
        elif look.job.train:
            hint += f"; to estimate {asked} nodes, plan with --set nodes={limit} --nodes {asked}"
        found = look.diagnose_job(
            "J201",
            f"{subject}, but {look.cluster.name} has {limit} ({where})",
            "nodes",
            hint=hint,
        )
        sized.problems.append(found)


def _gpus(look: Inputs, sized: Sized) -> tuple[int, int]:
    """GPUs asked for on each node, and ranks on each node."""
    there = look.cluster.nodes.gpus_per_node
    asked = look.job.gpus_per_node
    unmet = asked if not there and look.job.procs_per_node is None else None
    if unmet and look.local:
        ranks = unmet * (look.job.ranks_per_gpu or 1)
        why = "no GPU here: ranks simulate the GPUs"
        if look.job.ranks_per_gpu is None:
            why = "no GPU here: one rank simulates each GPU"
        sized.decide("ranks_per_node", ranks, why, look.cite_job("gpus_per_node"))
        return 0, ranks
    if unmet:
        found = look.diagnose_job(
            "J202",
            (
                f"gpus_per_node: {unmet}, but {look.cluster.name} has no GPUs "
                f"({look.cite_cluster('nodes')})"
            ),
            "gpus_per_node",
            hint="set procs_per_node to run ranks without GPUs, or choose another cluster with -c",
        )
        sized.problems.append(found)
        return 0, unmet
    if asked and asked > there and there:
        where = look.cite_cluster("nodes", "gpus_per_node")
        found = look.diagnose_job(
            "J203",
            f"gpus_per_node: {asked}, but a node of {look.cluster.name} has {there} ({where})",
            "gpus_per_node",
            hint=f"set gpus_per_node: {there} or fewer, and use more nodes",
        )
        sized.problems.append(found)
    gpus = there if asked is None else asked
    if gpus and there:
        why = "all GPUs of a node" if asked is None else SelfEvident.AS_ASKED
        place = (
            look.cite_cluster("nodes", "gpus_per_node")
            if asked is None
            else look.cite_job("gpus_per_node")
        )
        sized.decide("gpus_per_node", gpus, why, place)
        return gpus, count_ranks(look, gpus, place, sized)
    return 0, _procs(look, sized)


def _procs(look: Inputs, sized: Sized) -> int:
    """Ranks on a node where no GPU is used."""
    asked, known = look.job.procs_per_node, look.cluster.procs_per_node
    ranks = asked or known
    if ranks is None:
        why = "no GPUs, and procs_per_node is not set"
        sized.decide("ranks_per_node", 1, why, cite_rule("one-rank"))
        return 1
    why = SelfEvident.AS_ASKED if asked else "from the cluster profile"
    cite = look.cite_job if asked else look.cite_cluster
    sized.decide("procs_per_node", ranks, why, cite("procs_per_node"))
    sized.decide("ranks_per_node", ranks, "ranks without GPUs", cite("procs_per_node"))
    return ranks


def _launcher(look: Inputs, program: Program, world: int, sized: Sized) -> Setting:
    named = look.job.launcher.type
    if named:
        key = ("launcher", "type") if ("launcher", "type") in look.spec.places else ("launcher",)
        return Setting(named, SelfEvident.AS_ASKED, look.cite_job(*key))
    framework = look.job.train.framework if look.job.train else None
    own = find_launchers(lambda row: row.framework == framework)
    if own:
        why = f"framework: {framework} is configured by its launcher"
        return Setting(own[0], why, look.cite_job("train", "framework"))
    if world == 1:
        return Setting(SINGLE, "a single rank needs no launcher", cite_rule("one-rank"))
    if not program.python and not _brings_launcher(look):
        every = join_words(
            find_launchers(lambda row: row.task != "command" and not row.rank_command), "or"
        )
        once = join_words(find_launchers(lambda row: row.task == "command"), "or")
        found = look.diagnose_job(
            "J204",
            f"'{program.first}' is not a Python program: set launcher: to start {world} ranks",
            "run",
            hint=suggest_keys(look.job.run)
            or f"launcher: {every} runs the command once per rank, launcher: {once} once per node",
        )
        sized.problems.append(found)
    why = "default for a multi-rank Python program"
    return Setting(DEFAULT, why, cite_rule("launcher"))


def _brings_launcher(look: Inputs) -> bool:
    return any(p.launcher and not p.command.some_ranks for p, _ in look.spec.programs)


def _time(look: Inputs, sized: Sized) -> None:
    asked, limit = look.job.time, look.cluster.limits.time
    if asked is None:
        _default_time(look, sized)
        return
    sized.decide("time", asked.human(), SelfEvident.AS_ASKED, look.cite_job("time"))
    asked = max(look.times)
    if limit is not None and asked > limit:
        where = look.cite_cluster("limits", "time")
        found = look.diagnose_job(
            "J206",
            f"time: {asked}, but the limit on {look.cluster.name} is {limit} ({where})",
            "time",
            hint=(
                f"set time: {limit} or less; checkpoint: {{requeue: true}} continues the job "
                "after that"
            ),
        )
        sized.problems.append(found)


def _default_time(look: Inputs, sized: Sized) -> None:
    """The time limit of a job that sets none."""
    given = look.cluster.limits.default_time
    if given is None:
        message = f"time is missing, and the profile of {look.cluster.name} states no default"
        hint = "add time: 4h to the job, or limits: {default_time: 1h} to the profile"
        sized.problems.append(look.diagnose_job("J116", message, "time", hint=hint))
        return
    place = look.cite_cluster("limits", "default_time")
    sized.decide("time", given.human(), "not set in the job: default of the partition", place)


def _memory(look: Inputs, sized: Sized) -> None:
    asked, there = look.job.mem, look.cluster.nodes.mem
    if asked is None:
        return
    sized.decide("mem", asked.human(), "memory per node", look.cite_job("mem"))
    if there is not None and asked.bytes is not None and asked.bytes > there:
        from jobgen.model.units import format_size

        where = look.cite_cluster("nodes", "mem")
        found = look.diagnose_job(
            "J207",
            f"mem: {asked}, but a node of {look.cluster.name} has {format_size(there)} ({where})",
            "mem",
            hint="set mem: 0 for all memory of a node",
        )
        sized.problems.append(found)
