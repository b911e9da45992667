"""One picture for a slide: the memory of every strategy against the limit."""

from __future__ import annotations

from jobgen.cli.layout import fold
from jobgen.cli.output import safe
from jobgen.cli.page import charts, draw
from jobgen.cli.page.draw import BAD, PAPER, SMALL, Frame, Style
from jobgen.cli.screens.memory import gib, sizes
from jobgen.strategy.choice.values import Advice
from jobgen.strategy.estimate import GIB

WIDTH, HEIGHT = 1280, 720
MOST = 14
"""Rows that there is room for; the chosen strategy is always among them."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 330, 1095, 150, 610
_FRAME = Frame(_LEFT, _RIGHT - _LEFT, "")
_NAME = 16


def svg(advice: Advice, title: str = "") -> str:
    """A picture of 1280 x 720 that stands alone: no style sheet, no script, white paper.

    ``title`` is what is planned; without one it is the model's name.
    """
    bars = charts.memory_bars(advice)
    rows = _rows(bars)
    whole = charts.reach([bar.total for bar in rows], advice.limit)
    left_out = len(bars) - len(rows)
    body = [
        draw.patterns(),
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="{PAPER}"/>',
        *_head(advice, title, left_out),
        *_axis(whole),
        *_drawn(rows, whole),
        *_limit(advice.limit, whole),
        *_legend(rows),
    ]
    said = (title or "Memory per GPU", "; ".join(f"{bar.title}: {bar.told}" for bar in bars))
    more = f'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
    return draw.picture("memory", said, body, (str(WIDTH), HEIGHT), more) + "\n"


def _rows(bars: list[charts.Bar]) -> list[charts.Bar]:
    """The first ones, and the chosen one even if it stands behind them."""
    first, rest = bars[:MOST], bars[MOST:]
    chosen = [bar for bar in rest if bar.chosen][:1]
    return [*first[: MOST - len(chosen)], *chosen] if chosen else first


def _head(advice: Advice, title: str, left_out: int) -> list[str]:
    shown = advice.shown
    name = title or (shown.setup.model.sizes.name if shown else "") or "Memory per GPU"
    told = [f"memory per GPU on {advice.machine.gpu}", "nvidia-smi, GiB, with its interval"]
    if shown:
        setup = shown.setup
        told.insert(1, ", ".join([*sizes(setup), setup.recipe.name]))
        told.insert(1, f"{setup.mesh.world} ranks")
    room = WIDTH - 120
    rest = f"{left_out} more not shown" if left_out else ""
    return [
        draw.text("60", _BOTTOM + 20, rest, SMALL),
        draw.text("60", 64, draw.fitted(name, 32, room), Style(32, bold=True)),
        draw.text("60", 98, draw.fitted("; ".join(told), 18, room), SMALL._replace(size=18)),
    ]


def _limit(limit: float, whole: float) -> list[str]:
    place = _FRAME.x(limit / whole)
    style = Style(16, BAD, "bad-ink", "end" if limit / whole > 0.85 else "middle", bold=True)
    return [
        draw.text(place, _TOP - 12, f"limit {gib(limit)} GiB", style),
        draw.line((place, _TOP - 5), (place, _BOTTOM), "bad", dash="8 4"),
    ]


def _axis(whole: float) -> list[str]:
    found = []
    for tick in draw.ticks(whole / GIB, 6):
        x = _FRAME.x(tick * GIB / whole)
        found.append(draw.line((x, _TOP), (x, _BOTTOM)))
        label = SMALL._replace(size=14, anchor="middle")
        found.append(draw.text(x, _BOTTOM + 20, f"{tick:g}", label))
    return found


def _drawn(rows: list[charts.Bar], whole: float) -> list[str]:
    pitch = min((_BOTTOM - _TOP) / max(len(rows), 1), 84)
    height = min(pitch * 0.6, 40)
    found = []
    for i, bar in enumerate(rows):
        y = _TOP + i * pitch + (pitch - height) / 2 - 2
        base = y + height / 2 + 6
        found += _name(bar, base)
        found += charts.segments(bar, _FRAME, (y, height), whole)
        style = Style(13, bold=bar.chosen)
        found.append(draw.text(str(_RIGHT + 12), base - 1, draw.fitted(bar.brief, 13, 165), style))
    return found


def _name(bar: charts.Bar, base: float) -> list[str]:
    """The title before its bar, on two lines of smaller letters where it is long."""
    words = ("\u25b6 " if bar.chosen else "") + safe(bar.title)
    size, room, lines = _NAME, _LEFT - 76, [words]
    if draw.long(words, size) > room:
        size = 13
        first, *rest = fold(words, int(room / (size * 0.56))).split("\n")
        lines = [first, " ".join(rest)] if rest else [first]
    style = Style(size, anchor="end", bold=bar.chosen)
    above = base - (len(lines) - 1) * 8
    return [
        draw.text(str(_LEFT - 14), above + i * 15, draw.fitted(line, size, room), style)
        for i, line in enumerate(lines)
    ]


def _legend(rows: list[charts.Bar]) -> list[str]:
    """Every paint with its letter and name, on as many lines as it takes."""
    found, x, y = [], 60.0, float(_BOTTOM + 54)
    for name, letter in charts.used(rows):
        label = f"{letter} {draw.fitted(name, 15, 200)}"
        need = 24 + draw.long(label, 15) + 22
        if x + need > WIDTH - 60:
            x, y = 60.0, y + 28
        found.append(draw.rect(f"{x:.0f}", y - 14, "18", 18, name))
        found.append(draw.text(f"{x + 25:.0f}", y, label, Style(15)))
        x += need
    return found
