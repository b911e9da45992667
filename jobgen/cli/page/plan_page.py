"""The page of ``jobgen plan``: pictures, every number, assumptions and doubts."""

from __future__ import annotations

from collections.abc import Sequence

from jobgen.cli.page import bars, curves, page_tables
from jobgen.cli.page.paints import PATTERNS
from jobgen.cli.page.shapes import Banner, Bullets, Item, Page, Paragraph, Section, write_page
from jobgen.cli.screens.memory import format_expected, format_verdict
from jobgen.cli.screens.memory_parts import to_gib
from jobgen.strategy.choice.offer import Advice, Offer


def write_plan_page(
    advice: Advice, title: str = "", *, offers: Sequence[Offer] = (), tokens: float = 0.0
) -> str:
    """The page. ``title`` is what is planned, ``offers`` and ``tokens`` are those of ``--compare``.

    The same answer gives the same bytes: no time, no name of a machine is in it. Numbers in a
    picture stand in a table below it too.
    """
    shown = advice.first_option
    name = title or (shown.setup.model.sizes.name if shown else "") or "Plan"
    doubts = dict.fromkeys((*advice.doubts, *(shown.memory.doubts if shown else ())))
    parts: Sequence[tuple[str, str, Sequence[Item]]] = (
        ("memory-part", "Memory per GPU", _show_memory(advice)),
        ("steps-part", "Time of a step", _show_steps(advice)),
        ("scaling-part", "How it scales", _show_scaling(advice)),
        ("levers", "What would help", page_tables.list_levers(advice)),
        (
            "clusters",
            "The same work on other clusters",
            page_tables.compare_offers(offers, tokens),
        ),
        ("assumed", "What was assumed", page_tables.list_assumptions(advice)),
        ("doubts", "What could make it wrong", _list(tuple(doubts))),
        ("chosen", "How the strategy was chosen", _list(advice.why)),
        ("formulas", "Formulas", page_tables.list_formulas(advice)),
    )
    sections = [Section(*part) for part in parts if part[2]]
    return write_page(Page(name, _head(advice), sections, PATTERNS))


def _head(advice: Advice) -> list[Item]:
    shown = advice.first_option
    summary = f"{advice.machine.gpu}, limit {to_gib(advice.limit)} GiB on each GPU"
    head: list[Item] = []
    if shown is not None:
        summary = f"{shown.title}, {shown.setup.mesh.world} ranks; {summary}"
        words = format_verdict(shown, advice.limit), format_expected(shown.memory, advice.limit)
        head.append(Banner(shown.verdict, *words))
    if advice.smallest_nodes is not None:
        how = f", with {advice.smallest_by}" if advice.smallest_by else ""
        text = f"Fewest nodes that fit: {advice.smallest_nodes}{how}"
        head.append(Paragraph(text))
    return [Paragraph(summary), *head]


def _show_memory(advice: Advice) -> Sequence[Item]:
    if not advice.options:
        return ()
    note = (
        "A bar is what nvidia-smi shows, and the line below it the interval, in GiB. What is "
        "needed leaves out cache (f) that the allocator gives back."
    )
    legend = bars.explain_paints(bars.list_memory_bars(advice))
    table = page_tables.list_memory(advice)
    return (bars.draw_memory_bars(advice), legend, Paragraph(note), table)


def _show_steps(advice: Advice) -> Sequence[Item]:
    if not bars.list_step_bars(advice):
        return ()
    legend = bars.explain_paints(bars.list_step_bars(advice))
    return (bars.draw_steps(advice), legend, page_tables.list_steps(advice))


def _show_scaling(advice: Advice) -> Sequence[Item]:
    table = page_tables.list_scaling(advice)
    picture = curves.draw_rates(advice.scale, advice.unit)
    if picture is None:
        return (table,) if advice.scale else ()
    note = f"{advice.unit.capitalize()} per second of all GPUs; the dashed line is the ideal."
    return (picture, Paragraph(note), table)


def _list(lines: Sequence[str]) -> Sequence[Item]:
    return (Bullets(lines),) if lines else ()
