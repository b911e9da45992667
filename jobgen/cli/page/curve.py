"""A curve: tokens for each second over the number of nodes, beside the ideal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from jobgen.cli.page import draw
from jobgen.cli.page.draw import SMALL, Frame, Style
from jobgen.cli.screens.memory import percent, runs
from jobgen.cli.screens.scaling import ideal
from jobgen.strategy.choice.values import Scale

_FRAME = Frame(3, 90)
_TALL, _TOP = 250, 26


class Place(NamedTuple):
    """Where so many nodes and tokens for each second lie."""

    widest: int
    most: float

    def __call__(self, nodes: int, rate: float) -> tuple[str, float]:
        """Across in per cent, down in pixels."""
        return _FRAME.x(nodes / self.widest), _TOP + (_TALL - _TOP) * (1 - rate / self.most)


def scaling(scale: Sequence[Scale]) -> str:
    """Tokens for each second over nodes, beside the straight line of the ideal."""
    known = [one for one in scale if one.rate > 0 and runs(one.option)]
    if not known:
        return ""
    most = max(ideal(one, scale) for one in scale)
    most = max(most, *(one.rate for one in known)) * 1.02
    widest = max(one.nodes for one in scale)
    at = Place(widest, most)
    body = [*_levels(at)]
    end = max(scale, key=lambda one: one.nodes)
    body.append(draw.line(at(0, 0), at(widest, ideal(end, scale)), "mark", dash="5 4"))
    places = [at(one.nodes, one.rate) for one in known]
    body += [draw.line(a, b, "curve") for a, b in pairwise(places)]
    body += [_dot(x, y) for x, y in places]
    body += _named(scale, at)
    said = (
        "Tokens per second by number of nodes",
        "; ".join(f"{one.nodes} nodes: {one.rate:.0f}, {percent(one.efficiency)}" for one in known),
    )
    return draw.picture("scaling", said, body, ("100%", _TALL + 42))


def _levels(at: Place) -> list[str]:
    found = []
    for tick in draw.ticks(at.most, 4):
        y = at(0, tick)[1]
        found.append(draw.line(("0%", y), ("100%", y)))
        if tick:
            found.append(draw.text("0%", y - 4, short(tick), SMALL))
    return found


def _dot(x: str, y: float) -> str:
    return f'<circle cx="{x}" cy="{y:.1f}" r="4.5" fill="{draw.BLUE}" class="dot"/>'


def _named(scale: Sequence[Scale], at: Place) -> list[str]:
    """Numbers of nodes and efficiencies, from the right, as far as there is room for them."""
    found: list[str] = []
    last = 2.0
    for one in sorted(scale, key=lambda one: -one.nodes):
        share = one.nodes / at.widest
        if last - share < 0.11:
            continue
        last = share
        x = at(one.nodes, 0)[0]
        label = str(one.nodes) if found else f"{one.nodes} nodes"
        found.append(draw.text(x, _TALL + 18, label, SMALL._replace(anchor="middle")))
        if one.rate > 0 and runs(one.option):
            _, y = at(one.nodes, one.rate)
            style = Style(12, anchor="middle")
            found.append(draw.text(x, y + 20, percent(one.efficiency), style))
        else:
            small = SMALL._replace(anchor="middle")
            found.append(draw.text(x, _TALL + 34, "does not fit", small))
    return found


def short(number: float) -> str:
    """``180 k``, ``1.2 M``."""
    for size, word in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:g} {word}"
    return f"{number:g}"
