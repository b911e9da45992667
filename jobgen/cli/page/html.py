"""One page that needs nothing beside it: pictures, every number, assumptions and doubts.

No script and no address is in it; it is readable in the dark, on a telephone and on paper. Every
word that came from outside is escaped, and numbers in a picture stand in a table below it too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jobgen.cli.page import charts, curve, draw, tables
from jobgen.cli.page.draw import escape
from jobgen.cli.page.style import CSS
from jobgen.cli.screens.memory import expected, gib, verdict
from jobgen.strategy.choice.values import Advice, Offer


def html(
    advice: Advice, title: str = "", *, offers: Sequence[Offer] = (), tokens: float = 0.0
) -> str:
    """The page. ``title`` is what is planned, ``offers`` and ``tokens`` are those of ``--compare``.

    The same answer gives the same bytes: no time, no name of a machine is in it.
    """
    shown = advice.shown
    name = title or (shown.setup.model.sizes.name if shown else "") or "Plan"
    sections = [
        _memory(advice),
        _steps(advice),
        _scaling(advice),
        _section("What would help", "levers", tables.levers(advice)),
        _section("The same work on other clusters", "clusters", tables.offers(offers, tokens)),
        _section("What was assumed", "assumed", tables.assumed(advice)),
        _section("What could make it wrong", "doubts", _items(_doubts(advice))),
        _section("How it was chosen", "chosen", _items(advice.why)),
        _section("Formulas", "formulas", tables.formulas(advice)),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(name)}</title>\n<style>{CSS}</style>\n</head>\n<body>\n"
        f'<svg width="0" height="0" aria-hidden="true" class="none">{draw.patterns()}</svg>\n'
        f"<main>\n{_head(advice, name)}{''.join(sections)}</main>\n</body>\n</html>\n"
    )


def _head(advice: Advice, name: str) -> str:
    shown = advice.shown
    told = [f"{advice.machine.gpu}, limit {gib(advice.limit)} GiB on each GPU"]
    if shown is not None:
        told.insert(0, f"{shown.title}, {shown.setup.mesh.world} ranks")
    lines = [f"<h1>{escape(name)}</h1>\n<p>{escape('; '.join(told))}</p>\n"]
    if shown is not None:
        said = verdict(shown, advice.limit)
        lines.append(
            f'<p class="verdict {shown.verdict}"><strong>{escape(said)}</strong><br>'
            f"{escape(expected(shown.memory, advice.limit))}</p>\n"
        )
    if advice.smallest_nodes is not None:
        how = f", by {escape(advice.smallest_by)}" if advice.smallest_by else ""
        lines.append(f"<p>Smallest number of nodes that works: {advice.smallest_nodes}{how}</p>\n")
    return "".join(lines)


def _memory(advice: Advice) -> str:
    if not advice.options:
        return ""
    note = "<p>The line below a bar is the interval. All in GiB, as nvidia-smi counts.</p>"
    bars = charts.memory_bars(advice)
    body = f"{charts.memory(advice)}\n{_legend(bars)}{note}\n{tables.memory(advice)}"
    return _section("Memory per GPU", "memory-part", body)


def _steps(advice: Advice) -> str:
    picture = charts.steps(advice)
    if not picture:
        return ""
    body = f"{picture}\n{_legend(charts.step_bars(advice))}{tables.steps(advice)}"
    return _section("Time of a step", "steps-part", body)


def _scaling(advice: Advice) -> str:
    if not advice.scale:
        return ""
    picture = curve.scaling(advice.scale)
    note = (
        "<p>Tokens per second of all GPUs; the dashed line is the ideal.</p>\n" if picture else ""
    )
    return _section("How it scales", "scaling-part", f"{picture}\n{note}{tables.scaling(advice)}")


def _section(title: str, name: str, body: str) -> str:
    if not body:
        return ""
    head = f'<section aria-labelledby="{name}">\n<h2 id="{name}">{title}</h2>\n'
    return f"{head}{body}</section>\n"


def _legend(bars: Sequence[charts.Bar]) -> str:
    """Every paint with its letter and its name."""
    found = []
    for name, letter in charts.used(bars):
        swatch = draw.rect("0", 0, "20", 20, name)
        colour = draw.PAINTS.get(name, draw.OTHER).letter
        style = draw.Style(13, colour, "letter", "middle", bold=True)
        found.append(
            f'<li><svg width="20" height="20" aria-hidden="true">{swatch}'
            f"{draw.text('10', 15, letter, style)}</svg> {escape(tables.meant(name))}</li>"
        )
    return f'<ul class="legend">{"".join(found)}</ul>\n'


def _doubts(advice: Advice) -> Iterable[str]:
    """Of the whole answer, then of what was chosen."""
    shown = advice.shown
    return dict.fromkeys((*advice.doubts, *(shown.memory.doubts if shown else ())))


def _items(lines: Iterable[str]) -> str:
    found = "".join(f"<li>{escape(line)}</li>\n" for line in lines)
    return f"<ul>\n{found}</ul>\n" if found else ""
