"""The benches as pages for a browser: a curve, every number, what it means."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from typing import TYPE_CHECKING

from jobgen.cli.layout import format_size
from jobgen.cli.page.curves import Measurement, draw_measurements
from jobgen.cli.page.shapes import Banner, Item, Page, PageTable, Paragraph, Section, write_page

if TYPE_CHECKING:
    from jobgen.app.benching.allreduce import Judged
    from jobgen.bench.results import Point
    from jobgen.bench.scaling import Scaling, ScalingRow

_MARKS = {"good": "fits", "bad": "no", "open": "unknown"}


def write_allreduce_page(judged: Judged) -> str:
    """The page of ``bench allreduce``."""
    from jobgen.cli.screens.bench import NAMES

    limit, bench = judged.limit.rate if judged.limit else 0.0, judged.bench
    sections = []
    for op, verdict in judged.verdicts:
        points = bench.select(op)
        items = (
            Banner(_MARKS[verdict.mark], verdict.text, verdict.next),
            _draw_bandwidth(op, points, limit),
            _list_bandwidth(op, points, limit),
        )
        sections.append(Section(op, NAMES[op], items))
    nodes = [
        (n.name, f"{n.median / 1e9:.4g}", f"{n.best / 1e9:.4g}", "slow" if n.slow else "")
        for n in judged.nodes
    ]
    if nodes:
        table = PageTable("Each node", ("Node", "Median GB/s", "Best GB/s", ""), nodes)
        sections.append(Section("pairs", "Pairs of nodes", (table,)))
    ranks = f"{bench.ranks} ranks on {len(bench.hosts)} nodes, {bench.backend} on {bench.device}"
    title = f"{judged.record.alias} on {judged.record.site.cluster}"
    return write_page(Page(title, (Paragraph(ranks),), sections))


def _draw_bandwidth(op: str, points: Sequence[Point], limit: float) -> Item:
    from jobgen.cli.screens.bench import NAMES

    most = max(limit, *(point.bus for point in points))
    first = points[0].bytes
    last = max(log2(points[-1].bytes / first), 1.0)
    measurements = [
        Measurement(
            0.02 + 0.98 * log2(point.bytes / first) / last,
            point.bus / most,
            format_size(point.bytes),
            f"{point.bus / 1e9:.3g}",
        )
        for point in points
    ]
    level = (limit / most, f"limit {limit / 1e9:.4g} GB/s") if limit else None
    title = f"Bus bandwidth of {NAMES[op]}"
    return draw_measurements(f"{op}-curve", title, measurements, level=level)


def _list_bandwidth(op: str, points: Sequence[Point], limit: float) -> PageTable:
    from jobgen.cli.screens.bench import NAMES, format_seconds

    heads = ("Size", "Time", "Algorithm GB/s", "Bus GB/s", "Spread", "Of the limit")
    rows = [
        (
            format_size(point.bytes),
            format_seconds(point.median),
            f"{point.algorithm / 1e9:.4g}",
            f"{point.bus / 1e9:.4g}",
            f"{point.spread:.0%}",
            f"{point.bus / limit:.0%}" if limit else "-",
        )
        for point in points
    ]
    return PageTable(f"Each size of {NAMES[op]}", heads, rows)


def write_scaling_page(scaling: Scaling, title: str) -> str:
    """The page of ``bench scaling``."""
    items: list[Item] = [_list_sizes(scaling.rows)]
    known = [row for row in scaling.rows if row.rate]
    if known:
        most = max(max(row.ideal, row.rate) for row in known)
        unit = "ranks" if scaling.within else "nodes"
        widest = max(getattr(row.run, unit) for row in scaling.rows)
        points = [
            Measurement(size / widest, row.rate / most, f"{size}", f"{row.efficiency:.0%}")
            for row, size in ((row, getattr(row.run, unit)) for row in known)
        ]
        ideal = min(max(row.ideal for row in scaling.rows) / most, 1.0)
        name = f"{scaling.unit} per second by number of {unit}"
        note = f"{scaling.unit.capitalize()} per second; the dashed line is the ideal."
        items = [draw_measurements("scaling", name, points, ideal=ideal), Paragraph(note), *items]
    summary = f"{len(scaling.rows)} sizes, {scaling.kind or 'kind of scaling unknown'}"
    sections = (Section("curve", "How it scales", items),)
    return write_page(Page(title, (Paragraph(summary),), sections))


def _list_sizes(rows: Sequence[ScalingRow]) -> PageTable:
    heads = ("Nodes", "Ranks", "Run", "Rate", "Ideal", "Efficiency", "Bottlenecks")
    cells: list[Sequence[object]] = []
    for row in rows:
        rates = [f"{rate:.4g}" if rate else "-" for rate in (row.rate, row.ideal)]
        efficiency = f"{row.efficiency:.0%}" if row.rate else "-"
        run = row.run
        cells.append((run.nodes, run.ranks, run.alias, *rates, efficiency, row.text))
    return PageTable("Results by size", heads, cells)
