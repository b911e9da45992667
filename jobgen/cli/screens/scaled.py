"""The answers of ``bench scaling``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jobgen.cli.layout import fold, measure, pad
from jobgen.cli.output import Ink, defuse
from jobgen.cli.screens.bench import draw_curve, format_seconds
from jobgen.wording import count

if TYPE_CHECKING:
    from jobgen.bench.scaling import Scaling, ScalingRow
    from jobgen.model.record import RunRecord

_KINDS = {"weak": "weak: the global batch grows with the ranks", "": ""} | {
    "strong": "strong: the global batch stays the same",
}


def screen(found: Scaling, ink: Ink, before: Mapping[str, Any] | None = None) -> str:
    """A row for each size, the curve against the ideal, which ends in ``|``, and the causes."""
    old = read_former(before, found.unit)
    heads = ["NODES", "RANKS", f"{(found.unit or 'units').upper()}/S", "IDEAL", "EFF.", "SPREAD"]
    heads += ["STEP", *(["BEFORE"] if old else [])]
    rows = [heads, *(_row(row, old) for row in found.rows)]
    widths = [max(map(measure, column)) for column in zip(*rows, strict=True)]
    most = max((max(row.rate, row.ideal) for row in found.rows), default=0.0)
    room = min(ink.width - sum(widths) - 2 * len(widths) - 1, 40)
    lines = [f"{ink('strong', 'How it scales')}  {_KINDS[found.kind]}".rstrip()]
    lines.append(ink("faint", "  ".join(map(pad, heads, widths)).rstrip()))
    for row, cells in zip(found.rows, rows[1:], strict=True):
        drawn = draw_curve(row.rate, row.ideal, most, room) if row.rate else ""
        lines.append("  ".join([*map(pad, cells, widths), drawn]).rstrip())
    lines += _causes(found, ink)
    return "".join(f"{line}\n" for line in lines)


def _row(row: ScalingRow, old: Mapping[tuple[int, int], float]) -> list[str]:
    step = row.run.report.get("step_s", 0.0)
    spread = (row.high - row.low) / row.rate if row.rate else 0.0
    rates = [f"{rate:.4g}" if rate else "-" for rate in (row.rate, row.ideal)]
    cells = [str(row.run.nodes), str(row.run.ranks), *rates]
    cells.append(f"{row.efficiency:.0%}" if row.rate else "-")
    cells.append(f"{spread:.0%}" if spread else "-")
    cells.append(format_seconds(step) if step > 0 else "-")
    if old:
        was = old.get((row.run.nodes, row.run.ranks))
        cells.append(f"{row.rate / was - 1:+.0%}" if was and row.rate else "-")
    return cells


def _causes(found: Scaling, ink: Ink) -> list[str]:
    """What holds each size back; the next step once for each cause."""
    lines: list[str] = []
    steps: dict[str, None] = {}
    for row in found.rows:
        if row.text:
            many = count(row.run.ranks, "rank") if found.within else count(row.run.nodes, "node")
            lines.append(fold(defuse(f"  {many}: {row.text}"), ink.width, "    "))
            steps[row.next] = None
    if not lines:
        return [f"{ink('good', 'Verdict')}  scales well: no bottleneck found"]
    told = [fold(defuse(f"Next     {step}"), ink.width, " " * 9) for step in steps if step]
    return [ink("warning", "Bottlenecks"), *lines, *told]


def read_former(before: Mapping[str, Any] | None, unit: str) -> dict[tuple[int, int], float]:
    """Nodes and ranks → rate of a previous answer in this unit; anything else is passed over."""
    told = before or {}
    rows = told.get("sizes")
    found = {}
    for row in rows if isinstance(rows, list) and told.get("unit") == unit else []:
        keys = ("nodes", "ranks", "rate_per_s")
        nodes, ranks, rate = map(row.get, keys) if isinstance(row, dict) else (0, 0, 0)
        if not isinstance(nodes, int) or not isinstance(ranks, int) or rate is True:
            continue
        if isinstance(rate, (int, float)) and 0 < rate < 1e18:
            found[nodes, ranks] = float(rate)
    return found


def data(found: Scaling, records: Sequence[RunRecord]) -> dict[str, Any]:
    """The runs of a scaling bench as plain data, with units in the names."""
    from jobgen.cli.screens.job_data import dump_job

    return {
        "unit": found.unit or None,
        "kind": found.kind or None,
        "jobs": [dump_job(record) for record in records],
        "sizes": [
            {
                "id": row.run.alias,
                "nodes": row.run.nodes,
                "ranks": row.run.ranks,
                "state": row.run.state,
                "rate_per_s": row.rate or None,
                "low_per_s": row.low or None,
                "high_per_s": row.high or None,
                "ideal_per_s": row.ideal or None,
                "efficiency": row.efficiency if row.rate else None,
                "cause": row.cause,
                "text": row.text,
                "next": row.next,
                "report": dict(row.run.report),
            }
            for row in found.rows
        ],
    }
