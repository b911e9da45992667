"""The benches as pages for a browser: a curve, every number, what it means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import log2
from typing import TYPE_CHECKING, NamedTuple

from jobgen.cli.layout import size
from jobgen.cli.page import draw
from jobgen.cli.page.draw import SMALL, Frame, Style, escape
from jobgen.cli.page.style import CSS

if TYPE_CHECKING:
    from jobgen.app.benching.allreduce import Judged
    from jobgen.bench.scaling import Row, Scaling

_FRAME = Frame(3, 92)
_TALL, _TOP = 250, 26


class _Dot(NamedTuple):
    """A measured place: across and up, both from 0 to 1; what stands below it and beside it."""

    x: float
    y: float
    below: str
    beside: str


def allreduce(judged: Judged) -> str:
    """The page of ``bench allreduce``."""
    from jobgen.cli.screens.bench import NAMES, seconds

    sections = []
    limit = judged.limit.rate if judged.limit else 0.0
    for op, verdict in judged.verdicts:
        points = judged.bench.of(op)
        most = max(limit, *(p.bus for p in points))
        last = max(log2(points[-1].bytes / points[0].bytes), 1.0)
        dots = [
            _Dot(
                0.02 + 0.98 * log2(p.bytes / points[0].bytes) / last,
                p.bus / most,
                size(p.bytes),
                f"{p.bus / 1e9:.3g}",
            )
            for p in points
        ]
        level = (limit / most, f"limit {limit / 1e9:.4g} GB/s") if limit else None
        heads = ("Size", "Time", "Algorithm GB/s", "Bus GB/s", "Spread", "Of the limit")
        rows = [
            (
                size(p.bytes),
                seconds(p.median),
                f"{p.algorithm / 1e9:.4g}",
                f"{p.bus / 1e9:.4g}",
                f"{p.spread:.0%}",
                f"{p.bus / limit:.0%}" if limit else "-",
            )
            for p in points
        ]
        picture = _picture(f"{op}-curve", f"Bus bandwidth of {NAMES[op]}", dots, level)
        good = {"good": "fits", "bad": "no", "open": "unknown"}[verdict.mark]
        told = f"<strong>{escape(verdict.text)}</strong><br>{escape(verdict.next)}"
        body = f'<p class="verdict {good}">{told}</p>\n{picture}\n{_table(heads, rows)}'
        sections.append(_section(NAMES[op], op, body))
    nodes = [
        (n.name, f"{n.median / 1e9:.4g}", f"{n.best / 1e9:.4g}", "slow" if n.slow else "")
        for n in judged.nodes
    ]
    if nodes:
        body = _table(("Node", "Median GB/s", "Best GB/s", ""), nodes)
        sections.append(_section("Pairs of nodes", "pairs", body))
    bench = judged.bench
    said = f"{bench.ranks} ranks on {len(bench.hosts)} nodes, {bench.backend} on {bench.device}"
    return _page(f"{judged.record.alias} on {judged.record.site.cluster}", said, sections)


def scaling(found: Scaling, title: str) -> str:
    """The page of ``bench scaling``."""
    known = [row for row in found.rows if row.rate]
    sections = []
    if known:
        most = max(max(row.ideal, row.rate) for row in known)
        widest = max(row.run.nodes for row in found.rows)
        dots = [
            _Dot(r.run.nodes / widest, r.rate / most, f"{r.run.nodes}", f"{r.efficiency:.0%}")
            for r in known
        ]
        ideal = max(row.ideal for row in found.rows) / most
        name = f"{found.unit} per second by number of nodes"
        picture = _picture("scaling", name, dots, None, ideal=min(ideal, 1.0))
        note = f"<p>{found.unit.capitalize()} per second; the dashed line is the ideal.</p>\n"
        sections.append(_section("How it scales", "curve", picture + note + _rows(found.rows)))
    else:
        sections.append(_section("How it scales", "curve", _rows(found.rows)))
    return _page(title, f"{len(found.rows)} sizes, {found.kind or 'scaling not told'}", sections)


def _rows(rows: Sequence[Row]) -> str:
    heads = ("Nodes", "Ranks", "Run", "Rate", "Ideal", "Efficiency", "What holds it back")
    cells = [
        (
            str(row.run.nodes),
            str(row.run.ranks),
            row.run.alias,
            f"{row.rate:.4g}" if row.rate else "-",
            f"{row.ideal:.4g}" if row.ideal else "-",
            f"{row.efficiency:.0%}" if row.rate else "-",
            row.text,
        )
        for row in rows
    ]
    return _table(heads, cells)


def _picture(
    name: str,
    title: str,
    dots: Sequence[_Dot],
    level: tuple[float, str] | None,
    *,
    ideal: float = 0.0,
) -> str:
    body = [draw.line(("0%", _y(0)), ("100%", _y(0)))]
    if level:
        body.append(draw.line(("0%", _y(level[0])), ("100%", _y(level[0])), "bad", dash="8 4"))
        body.append(draw.text("0%", _y(level[0]) - 5, level[1], SMALL))
    if ideal:
        body.append(draw.line((_x(0), _y(0)), (_x(1), _y(ideal)), "mark", dash="5 4"))
    places = [(_x(dot.x), _y(dot.y)) for dot in dots]
    body += [draw.line(a, b, "curve") for a, b in pairwise(places)]
    every = -(-len(dots) // 9)
    for number, (dot, (x, y)) in enumerate(zip(dots, places, strict=True)):
        body.append(f'<circle cx="{x}" cy="{y:.1f}" r="4.5" fill="{draw.BLUE}" class="dot"/>')
        if (len(dots) - 1 - number) % every == 0:
            middle = SMALL._replace(anchor="middle")
            body.append(draw.text(x, _TALL + 18, dot.below, middle))
            body.append(draw.text(x, y - 9, dot.beside, Style(12, anchor="middle")))
    said = (title, "; ".join(f"{dot.below}: {dot.beside}" for dot in dots))
    return draw.picture(name, said, body, ("100%", _TALL + 30))


def _x(share: float) -> str:
    return _FRAME.x(share)


def _y(share: float) -> float:
    return _TOP + (_TALL - _TOP) * (1 - share)


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    top = "".join(f'<th scope="col">{escape(head)}</th>' for head in heads)
    lines = ""
    for first, *rest in rows:
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in rest)
        lines += f'<tr><th scope="row">{escape(first)}</th>{cells}</tr>\n'
    return f'<div class="scroll"><table>\n<tr>{top}</tr>\n{lines}</table></div>\n'


def _section(title: str, name: str, body: str) -> str:
    head = f'<section aria-labelledby="{name}">\n<h2 id="{name}">{escape(title)}</h2>\n'
    return f"{head}{body}</section>\n"


def _page(title: str, said: str, sections: Iterable[str]) -> str:
    """The whole page: no script, no address, readable in the dark and on paper."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{CSS}</style>\n</head>\n<body>\n"
        f"<main>\n<h1>{escape(title)}</h1>\n<p>{escape(said)}</p>\n"
        f"{''.join(sections)}</main>\n</body>\n</html>\n"
    )
