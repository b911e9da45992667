"""The page's tables: every number that a picture shows, and those that none can."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jobgen.cli.layout import size
from jobgen.cli.page import charts
from jobgen.cli.page.draw import escape
from jobgen.cli.screens import offers as side_by_side
from jobgen.cli.screens.memory import WORDS, gib, mfu, percent, runs, seconds
from jobgen.cli.screens.remedies import slower
from jobgen.cli.screens.scaling import ideal
from jobgen.cli.screens.stack import MEANT
from jobgen.strategy.choice.values import Advice, Offer, Option

Row = tuple[Sequence[object], bool]
"""Cells, and whether it is the chosen one's."""


def table(caption: str, heads: Sequence[object], rows: Iterable[Row], words: int = 0) -> str:
    """A table whose first column names its rows and whose last ``words`` columns are sentences."""
    plain = len(heads) - words
    kinds = [""] * plain + [' class="words"'] * words
    top = "".join(
        f'<th scope="col"{kind}>{escape(head)}</th>' if head else "<td></td>"
        for head, kind in zip(heads, kinds, strict=True)
    )
    head = f"<thead><tr>{top}</tr></thead>\n" if any(heads) else ""
    body = "".join(_row(cells, words, chosen=chosen) for cells, chosen in rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table>\n'
        f"<caption>{escape(caption)}</caption>\n{head}<tbody>\n{body}</tbody>\n</table></div>\n"
    )


def _row(cells: Sequence[object], words: int, *, chosen: bool) -> str:
    first, *rest = cells
    mark = ' class="chosen"' if chosen else ""
    name = f"\u25b6 {first}" if chosen else first
    found = [f'<tr{mark}><th scope="row">{escape(name)}</th>']
    for i, cell in enumerate(rest):
        kind = ' class="words"' if i >= len(rest) - words else ""
        found.append(f"<td{kind}>{escape(cell)}</td>")
    return "".join([*found, "</tr>\n"])


def meant(name: str) -> str:
    """What a name in a legend stands for."""
    return MEANT.get(name, name)


def memory(advice: Advice) -> str:
    """Every component of every strategy, the metrics, the interval, and what lies elsewhere."""
    names = [name for name, _ in charts.used(charts.memory_bars(advice))]
    heads = ["strategy", "fits", "nvidia-smi", "from", "to", "reserved", "allocated", *names]
    away = [("host", "node memory"), ("nvme", "node NVMe"), ("checkpoint", "checkpoint")]
    away = [(k, t) for k, t in away if any(getattr(o.memory, k) for o in advice.options)]
    heads += [title for _, title in away]
    rows = [
        (_memory(option, names, [k for k, _ in away]), option.chosen) for option in advice.options
    ]
    return table("Memory at the peak, in GiB for each GPU", [*heads, "peak in", "note"], rows, 1)


def _memory(option: Option, names: Sequence[str], away: Sequence[str]) -> list[object]:
    found = option.memory
    amounts = dict.fromkeys(names, 0.0)
    for part in found.components:
        if part.name in amounts:
            amounts[part.name] += part.bytes
    kinds = (found.nvidia_smi, found.low, found.high, found.of("reserved"), found.of("allocated"))
    return [
        option.title,
        WORDS[option.verdict],
        *map(gib, kinds),
        *(gib(amount) if amount else "-" for amount in amounts.values()),
        *(size(getattr(found, key)) if getattr(found, key) else "-" for key in away),
        found.moment,
        option.note,
    ]


def steps(advice: Advice) -> str:
    """What takes the time of a step, and what is sent."""
    rows: list[Row] = []
    heads: list[str] = []
    for option in advice.options:
        step = option.step
        if step is None or step.seconds <= 0 or not runs(option):
            continue
        parts = charts.spent(step)
        heads = [name for name, _, _ in parts]
        sent = {"node": 0.0, "network": 0.0}
        for volume in step.volumes:
            sent[volume.link] += volume.bytes
        cells = [
            option.title,
            seconds(step.seconds),
            f"{step.rate:.0f}",
            percent(mfu(step, advice.machine)),
            *(seconds(amount) if amount else "-" for _, _, amount in parts),
            *(size(amount) if amount else "-" for amount in sent.values()),
        ]
        rows.append((cells, option.chosen))
    sends = ["sent in the node", "sent over the network"]
    top = ["strategy", "step", "tokens/s/GPU", "MFU", *heads, *sends]
    return table("A step of the optimizer", top, rows) if rows else ""


def scaling(advice: Advice) -> str:
    """The points of the curve."""
    heads = ["nodes", "GPUs", "GiB per GPU", "fits", "tokens/s", "ideal", "efficiency", "strategy"]
    rows: list[Row] = []
    for one in advice.scale:
        known = one.rate > 0 and runs(one.option)
        cells = [
            one.nodes,
            one.option.setup.mesh.world,
            gib(one.option.memory.nvidia_smi),
            WORDS[one.option.verdict],
            f"{one.rate:.0f}" if known else "-",
            f"{ideal(one, advice.scale):.0f}" if known else "-",
            percent(one.efficiency) if known else "-",
            one.option.title,
        ]
        rows.append((cells, False))
    return table("More nodes", heads, rows, 1)


def levers(advice: Advice) -> str:
    """The cheapest changes."""
    heads = ["change", "saves, GiB", "then, GiB", "fits", "time"]
    rows: list[Row] = [
        (
            [
                lever.change,
                gib(lever.saves) if lever.saves >= 0 else f"-{gib(-lever.saves)}",
                gib(lever.memory),
                "yes" if lever.fits else "no",
                slower(lever.slower).removeprefix(", ") or "the same",
            ],
            False,
        )
        for lever in advice.levers
    ]
    return table("The cheapest first", heads, rows) if rows else ""


def offers(found: Sequence[Offer], tokens: float) -> str:
    """Clusters side by side, and where they cost the same."""
    if not found:
        return ""
    columns = [side_by_side.column(offer) for offer in found]
    rows: list[Row] = [
        ([head, *cells], False) for head, *cells in zip(side_by_side.HEADS, *columns, strict=True)
    ]
    caption = f"For {side_by_side.amount(tokens)} tokens"
    drawn = table(caption, ["", *(offer.cluster for offer in found)], rows)
    return drawn + "".join(f"<p>{escape(line)}</p>\n" for line in side_by_side.evens(found))


def assumed(advice: Advice) -> str:
    """What the answer holds for."""
    option = advice.shown
    if option is None:
        return ""
    setup, machine = option.setup, advice.machine
    mesh, batch, recipe = setup.mesh, setup.batch, setup.recipe
    degrees = ", ".join(f"{k} {v}" for k, v in mesh._asdict().items() if v > 1) or "one rank"
    rows = {
        "model": f"{setup.model.sizes.name}, {setup.model.count:,} parameters",
        "sequence": f"{setup.seq} tokens",
        "batch": f"{batch.micro} x {batch.accumulation} x {batch.ranks} = {batch.total} samples",
        "ranks": f"{mesh.world}: {degrees}",
        "precision and optimizer": f"{recipe.name}, {recipe.total:g} bytes for each parameter",
        "activation recompute": setup.recompute,
        "framework": setup.framework,
        "GPU": f"{machine.gpu}, {gib(machine.memory)} GiB, {machine.peak / 1e12:.0f} TFLOP/s",
        "links": f"{machine.link / 1e9:.0f} GB/s in the node, {machine.network / 1e9:.3g} GB/s "
        f"for each GPU over {machine.fabric}",
    }
    if option.step is not None:
        rows["computing reaches"] = f"{percent(option.step.efficiency)} of the peak"
    cells: list[Row] = [((key, value), False) for key, value in rows.items()]
    return table(f"Of {option.title}", ["", ""], cells, 1)


def formulas(advice: Advice) -> str:
    """Every formula with its inputs and its source."""
    option = advice.shown
    if option is None:
        return ""
    rows: list[Row] = [
        ((part.name, f"{gib(part.bytes)} GiB", part.formula, part.source), False)
        for part in option.memory.components
        if part.bytes > 0
    ]
    heads = ["part", "memory", "formula", "source"]
    found = table(f"Of {option.title}", heads, rows, 2)
    lines = option.step.why if option.step else ()
    items = "".join(f"<li>{escape(line)}</li>\n" for line in lines)
    return found + (f"<ul>\n{items}</ul>\n" if items else "")
