"""The page's tables: every number that a picture shows, and those that none can."""

from __future__ import annotations

from collections.abc import Sequence

from jobgen.cli.layout import format_percent, format_size
from jobgen.cli.page.bars import list_memory_bars, list_paints, list_step_parts
from jobgen.cli.page.shapes import Bullets, Item, PageTable, Paragraph
from jobgen.cli.screens import offers as side_by_side
from jobgen.cli.screens.memory import WORDS, can_run
from jobgen.cli.screens.memory_parts import to_gib
from jobgen.cli.screens.remedies import ORDER, format_rate
from jobgen.cli.screens.scaling import compute_ideal
from jobgen.cli.screens.step_speed import compute_mfu, format_number, format_time
from jobgen.strategy.choice.offer import Advice, Offer, StrategyOption


def _choose(options: Sequence[StrategyOption]) -> int:
    """The place of the chosen one; -1 where none is."""
    return next((number for number, option in enumerate(options) if option.chosen), -1)


def _title(option: StrategyOption) -> str:
    return f"\u25b6 {option.title}" if option.chosen else option.title


def list_memory(advice: Advice) -> PageTable:
    """Every component of every strategy, the metrics, the interval, and what lies elsewhere."""
    names = [name for name, _ in list_paints(list_memory_bars(advice))]
    heads = [
        "strategy",
        "fits",
        "needs",
        "nvidia-smi",
        "from",
        "to",
        "reserved",
        "allocated",
        *names,
    ]
    away = [("host", "node memory"), ("nvme", "node NVMe"), ("checkpoint", "checkpoint")]
    away = [(k, t) for k, t in away if any(getattr(o.memory, k) for o in advice.options)]
    heads += [title for _, title in away]
    heads += ["peak in", "note"]
    rows = [_memory(option, names, [k for k, _ in away]) for option in advice.options]
    caption = "Memory at the peak, in GiB for each GPU"
    return PageTable(caption, heads, rows, 1, _choose(advice.options))


def _memory(option: StrategyOption, names: Sequence[str], away: Sequence[str]) -> list[object]:
    memory = option.memory
    amounts = dict.fromkeys(names, 0.0)
    for part in memory.components:
        if part.name in amounts:
            amounts[part.name] += part.bytes
    totals = (memory.nvidia_smi, memory.low, memory.high)
    torch = (memory.get_peak("reserved"), memory.get_peak("allocated"))
    sizes = (getattr(memory, key) for key in away)
    elsewhere = [format_size(amount) if amount else "-" for amount in sizes]
    return [
        _title(option),
        WORDS[option.verdict],
        *map(to_gib, (memory.needed, *totals, *torch)),
        *(to_gib(amount) if amount else "-" for amount in amounts.values()),
        *elsewhere,
        memory.moment,
        option.note,
    ]


def list_steps(advice: Advice) -> PageTable:
    """What takes the time of a step, and what is sent."""
    rows: list[list[str]] = []
    heads: list[str] = []
    options = [o for o in advice.options if o.step and o.step.seconds > 0 and can_run(o)]
    for option in options:
        step = option.step
        assert step is not None  # noqa: S101  the filter above
        parts = list_step_parts(step)
        heads = [name for name, _, _ in parts]
        sent = {"node": 0.0, "network": 0.0}
        for volume in step.volumes:
            sent[volume.link] += volume.bytes
        cells = [_title(option), format_time(step.seconds), format_number(step.rate)]
        times = [format_time(amount) if amount else "-" for _, _, amount in parts]
        volumes = [format_size(amount) if amount else "-" for amount in sent.values()]
        rows.append([*cells, format_percent(compute_mfu(step, advice.machine)), *times, *volumes])
    sends = ["sent in the node", "sent over the network"]
    top = ["strategy", "step", f"{advice.unit}/s/GPU", "MFU", *heads, *sends]
    return PageTable("A step of the optimizer", top, rows, chosen=_choose(options))


def list_scaling(advice: Advice) -> PageTable:
    """The points of the curve."""
    heads = ["nodes", "GPUs", "needs, GiB", "fits", f"{advice.unit}/s"]
    heads += ["ideal", "efficiency", "strategy"]
    rows = []
    for one in advice.scale:
        option, rates = one.option, ["-"] * 3
        if one.rate > 0 and can_run(option):
            rates = [
                format_number(one.rate),
                format_number(compute_ideal(one, advice.scale)),
                format_percent(one.efficiency),
            ]
        memory = (to_gib(option.memory.needed), WORDS[option.verdict])
        rows.append([one.nodes, option.setup.mesh.world, *memory, *rates, option.title])
    return PageTable("More nodes", heads, rows, 1)


def list_levers(advice: Advice) -> Sequence[Item]:
    """What would help, in the order of the screen."""
    heads = ["change", "needs, GiB", "fits", f"{advice.unit}/s"]
    rows = []
    for lever in advice.levers:
        rate = format_rate(lever, advice) if lever.fits and lever.rate else "-"
        rows.append((lever.change, to_gib(lever.memory), WORDS[lever.verdict], rate))
    return (PageTable(ORDER.capitalize(), heads, rows),) if rows else ()


def compare_offers(offers: Sequence[Offer], work: float) -> Sequence[Item]:
    """Clusters side by side, and where one becomes cheaper than another."""
    if not offers:
        return ()
    names = side_by_side.list_heads(offers)
    columns = [side_by_side.draw_column(offer, names) for offer in offers]
    rows = [*zip(names, *columns, strict=True)]
    heads = ["", *(offer.cluster for offer in offers)]
    table = PageTable(side_by_side.format_work(offers, work), heads, rows)
    return (table, *map(Paragraph, side_by_side.list_evens(offers)))


def list_assumptions(advice: Advice) -> Sequence[Item]:
    """What the answer holds for."""
    option = advice.first_option
    if option is None:
        return ()
    setup, machine = option.setup, advice.machine
    mesh, batch, recipe = setup.mesh, setup.batch, setup.recipe
    degrees = ", ".join(f"{k} {v}" for k, v in mesh._asdict().items() if v > 1) or "one rank"
    rows = {
        "model": f"{setup.model.sizes.name}, {setup.model.count:,} parameters",
        **({"sequence": f"{setup.seq} tokens"} if advice.unit == "tokens" else {}),
        "batch": f"{batch.micro} x {batch.accumulation} x {batch.ranks} = {batch.total} samples",
        "ranks": f"{mesh.world}: {degrees}",
        "precision and optimizer": f"{recipe.name}, {recipe.total:g} bytes for each parameter",
        "activation recompute": setup.recompute,
        "framework": setup.framework,
        "GPU": f"{machine.gpu}, {to_gib(machine.memory)} GiB, {machine.peak / 1e12:.0f} TFLOP/s",
        "links": f"{machine.link / 1e9:.0f} GB/s in the node, {machine.network / 1e9:.3g} GB/s "
        f"for each GPU over {machine.fabric}",
    }
    if option.step is not None:
        rows["computing reaches"] = f"{format_percent(option.step.efficiency)} of the peak"
    return (PageTable(f"Of {option.title}", (), [*rows.items()], 1),)


def list_formulas(advice: Advice) -> Sequence[Item]:
    """Every formula with its inputs and its source."""
    option = advice.first_option
    if option is None:
        return ()
    rows = [
        (part.title, f"{to_gib(part.bytes)} GiB", part.formula, part.source)
        for part in option.memory.components
        if part.bytes > 0
    ]
    heads = ["part", "memory", "formula", "source"]
    table = PageTable(f"Of {option.title}", heads, rows, 2)
    lines = option.step.why if option.step else ()
    return (table, Bullets(lines)) if lines else (table,)
