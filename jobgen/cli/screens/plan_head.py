"""The first lines of a plan: what runs, where, how large it is, and how it is launched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from jobgen.cli.layout import clip, fold, measure, write_hours
from jobgen.cli.output import TIMES, Ink, defuse
from jobgen.cli.screens.chain_rows import describe_chain
from jobgen.cli.screens.race_rows import describe_race
from jobgen.cli.screens.sweep_rows import describe_packing, list_elements
from jobgen.model.units import Walltime
from jobgen.wording import count

if TYPE_CHECKING:
    from jobgen.app.plan_extras import Cost, NodeCpus
    from jobgen.cli.screens.plan_summary import Preview
    from jobgen.model.plan import Plan, ProgramPlan

_MOST_STEPS = 6
"""Steps that are listed."""
_MOST_STAGED = 3
"""Sources of staged data that are listed."""
LABEL = 10
"""Columns of ``Cost``, ``Launch`` and their like."""


def draw_head(preview: Preview, ink: Ink) -> list[str]:
    """What runs, where, how large; the most that it can use up; how it is launched."""
    from jobgen.app.plan_extras import count_cpus

    plan, cost = preview.plan, format_cost(preview.planned.cost)
    launch = _describe_launch(plan, count_cpus(preview.planned.ready))
    launch += ", one per simulated GPU" if _simulates_gpus(preview) else ""
    rows = draw_row("Cost", _add_work(cost, preview, ink), ink) if cost else []
    elements = list_elements(plan, every=bool(preview.call.flags.verbose))
    swept = draw_label("Sweep", [clip(text, ink.width - LABEL) for text in elements], ink)
    packed = describe_packing(plan)
    rows += draw_row("Workers", packed, ink) if packed else []
    rows += draw_row("Race", describe_race(plan), ink) if plan.race else []
    chain = describe_chain(plan)
    rows += draw_row("Chain", chain, ink) if chain else []
    launched = draw_row("Launch", launch, ink) if not plan.programs else []
    launched += _draw_training(preview, ink)
    kind = "Groups" if plan.has_groups else "Steps"
    steps = draw_label(kind, [clip(text, ink.width - LABEL) for text in _list_steps(plan)], ink)
    return [*draw_headline(plan, ink), *rows, *launched, *steps, *swept]


def _add_work(cost: str, preview: Preview, ink: Ink) -> str:
    """The cost, and where the line has room, what a job of one training trains on meanwhile."""
    plan, advice = preview.plan, preview.answer.advice.advice
    several = plan.programs or plan.components or plan.race or plan.shape.elements is not None
    if advice is None or several:
        return cost
    from jobgen.cli.screens.memory_summary import describe_work

    work = describe_work(advice, plan.starts * plan.shape.seconds)
    text = f"{cost}, enough for {work}"
    return text if work and measure(text) <= ink.width - LABEL else cost


def _draw_training(preview: Preview, ink: Ink) -> list[str]:
    """The strategy of a job whose memory is estimated, and the time of a step."""
    advice = preview.answer.advice.advice
    if advice is None:
        return []
    from jobgen.cli.screens.memory_summary import draw_training

    return draw_label("Strategy", draw_training(advice, ink.width - LABEL), ink)


def _list_steps(plan: Plan) -> list[str]:
    """What runs, one after another; nothing for a job with its program alone."""
    around = {step.name: step.text.split("\n")[0] for step in plan.steps if step.scope == "once"}
    programs = [
        f"{defuse(each.name)}: {count(each.plan.shape.world, 'rank')} on "
        f"{count(each.plan.shape.nodes, 'node')}, {defuse(each.plan.launcher.value)}"
        f"{_describe_image(plan, each)}{each.group.describe() if each.group else ''}"
        for each in plan.programs
    ] or ["the program"]
    more = len(programs) - _MOST_STEPS
    if more > 1:
        programs = [*programs[:_MOST_STEPS], f"and {more} more: --section steps"]
    first = [*_list_staged(plan)]
    first += [f"before: {defuse(around['before'])}"] if "before" in around else []
    last = [f"finally: {defuse(around['finally'])}"] if "finally" in around else []
    first += [f"{plan.rounds} rounds of"] if plan.rounds > 1 else []
    return [*first, *programs, *last] if first or last or plan.programs else []


def _describe_image(plan: Plan, program: ProgramPlan) -> str:
    """The image of one of several programs that do not all have the same."""
    container = program.plan.container
    if container is None or len(plan.containers) == 1:
        return ""
    return f" in {clip(defuse(container.image), 40)}"


def _list_staged(plan: Plan) -> Iterator[str]:
    """What is brought to the nodes first."""
    staged = plan.prepare.staged if plan.prepare else ()
    for each in staged[:_MOST_STAGED]:
        yield f"stage: {defuse(each.source)} to {defuse(each.folder)}"
    if len(staged) > _MOST_STAGED:
        yield f"stage: {len(staged) - _MOST_STAGED} more"


def _simulates_gpus(preview: Preview) -> bool:
    """Whether ranks stand for GPUs that this machine does not have."""
    ready = preview.planned.ready
    asked = ready.job.value.gpus_per_node and ready.job.value.procs_per_node is None
    local = ready.profile.value.scheduler == "local"
    return bool(local and asked and not preview.plan.shape.gpus_per_node)


def draw_headline(plan: Plan, ink: Ink) -> list[str]:
    """What runs, where, on how many nodes and GPUs, and for how long."""
    name = f"{defuse(plan.name)} on {defuse(plan.cluster)}:"
    first, *more = fold(f"{name} {_describe_shape(plan)}", ink.width, "  ").split("\n")
    if first.startswith(name):
        first = ink("strong", name) + first[len(name) :]
    return [first, *more]


def _describe_shape(plan: Plan) -> str:
    shape = plan.shape.allocated
    if plan.components:
        parts = " + ".join(defuse(each.describe(TIMES)) for each in plan.components)
        return f"{parts}, {Walltime(shape.seconds).human()}"
    nodes = count(shape.nodes, "node")
    if shape.min_nodes is not None:
        nodes = f"{shape.min_nodes} to {nodes}"
    if shape.elements is not None:
        nodes = f"{count(shape.elements, 'element')} of {nodes}"
    each, total = count(shape.ranks_per_node, "rank"), count(shape.world, "rank")
    if shape.gpus_per_node:
        each = count(shape.gpus_per_node, defuse(shape.gpu) or "GPU", defuse(shape.gpu) or "GPUs")
        total = count(shape.nodes * shape.gpus_per_node, "GPU")
    elif plan.has_groups:  # they differ in their ranks per node
        return f"{nodes}, {count(plan.world, 'rank')}, {Walltime(shape.seconds).human()}"
    return f"{nodes} {TIMES} {each} = {total}, {Walltime(shape.seconds).human()}"


def format_cost(cost: Cost) -> str:
    """``up to 64 GPU-hours, 115 EUR``; nothing without GPUs."""
    if not cost.gpu_hours:
        return ""
    money = f", {cost.amount:,.0f} {defuse(cost.currency)}" if cost.amount is not None else ""
    total = f"{write_hours(cost.gpu_hours)} GPU-hours{money}"
    if cost.starts == 1:
        return f"up to {total}"
    once = write_hours(cost.gpu_hours / cost.starts)
    return f"up to {total} ({cost.starts} starts of {once} GPU-hours)"


def _describe_launch(plan: Plan, cpus: NodeCpus) -> str:
    whole = "element" if plan.shape.packing else "node"
    ranks = f"{count(plan.shape.ranks_per_node, 'rank')} per {whole}"
    words = [defuse(plan.launcher.value), ranks]
    words += [format_cpus(cpus, whole)] if cpus.node else []
    if plan.container is not None:
        words.append(f"in {clip(defuse(plan.container.image), 40)} ({plan.container.runtime})")
    return ", ".join(words)


def format_cpus(cpus: NodeCpus, whole: str = "node") -> str:
    """``16 CPUs per rank (128 per node)``; in a packed sweep, per element."""
    return f"{count(cpus.rank, 'CPU')} per rank ({cpus.node:,} per {whole})"


def draw_row(label: str, text: str, ink: Ink) -> list[str]:
    """A label and its text, in at most two lines."""
    room = ink.width - LABEL
    return draw_label(label, [clip(line, room) for line in fold(text, room).split("\n")[:2]], ink)


def draw_label(label: str, lines: Sequence[str], ink: Ink) -> list[str]:
    """A label and its lines."""
    head, blank = f"{ink('strong', label)}{' ' * (LABEL - len(label))}", " " * LABEL
    return [f"{blank if i else head}{line}" for i, line in enumerate(lines)]
