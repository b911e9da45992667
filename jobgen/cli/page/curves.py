"""Curves: a rate over the number of nodes, or over the size of messages, beside what is ideal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from jobgen.cli.layout import format_percent
from jobgen.cli.page.shapes import Dot, Frame, Label, Picture, Point, Stroke, choose_ticks
from jobgen.cli.screens.memory import can_run
from jobgen.cli.screens.scaling import compute_ideal
from jobgen.named_tuple import NamedTuple
from jobgen.strategy.choice.offer import Scale

_TALL, _TOP = 250, 26
_LABELS = 9
"""About so many points of a curve have room for their words."""
_Shapes = list[Label | Stroke | Dot]


class Measurement(NamedTuple):
    """A measured point: across and up, both from 0 to 1; the words below and above it."""

    x: float
    y: float
    below: str
    above: str


def draw_measurements(
    name: str,
    title: str,
    points: Sequence[Measurement],
    *,
    level: tuple[float, str] | None = None,
    ideal: float = 0.0,
) -> Picture:
    """A curve of a bench, with a level that it should reach or the slope of the ideal."""
    frame = Frame(3, 92)
    shapes: _Shapes = [_level(0)]
    if level:
        shapes.append(_level(level[0], "bad dashes"))
        shapes.append(Label(0, _y(level[0]) - 5, level[1], "soft"))
    if ideal:
        shapes.append(Stroke((frame.x(0), _y(0)), (frame.x(1), _y(ideal)), "mark dashes"))
    places = [(frame.x(point.x), _y(point.y)) for point in points]
    shapes += _curve(places)
    every = -(-len(points) // _LABELS)
    for number, (point, (x, y)) in enumerate(zip(points, places, strict=True)):
        if (len(points) - 1 - number) % every == 0:
            shapes.append(Label(x, _TALL + 18, point.below, "soft middle"))
            shapes.append(Label(x, y - 9, point.above, "ink small middle"))
    description = "; ".join(f"{point.below}: {point.above}" for point in points)
    return Picture(name, title, description, _TALL + 30, shapes)


def draw_rates(scale: Sequence[Scale], unit: str) -> Picture | None:
    """Tokens or samples for each second over nodes, beside the straight line of the ideal."""
    known = [one for one in scale if one.rate > 0 and can_run(one.option)]
    if not known:
        return None
    frame, widest = Frame(3, 90), max(one.nodes for one in scale)
    most = max(*(compute_ideal(one, scale) for one in scale), *(one.rate for one in known)) * 1.02
    last = max(scale, key=lambda one: one.nodes)
    end = (frame.x(1), _y(compute_ideal(last, scale) / most))
    places = [(frame.x(one.nodes / widest), _y(one.rate / most)) for one in known]
    shapes = [
        *_levels(most),
        Stroke((frame.x(0), _y(0)), end, "mark dashes"),
        *_curve(places),
        *_name_nodes(scale, frame, widest, most),
    ]
    title = f"{unit.capitalize()} per second by number of nodes"
    points = (
        f"{one.nodes} nodes: {one.rate:,.0f}, {format_percent(one.efficiency)}" for one in known
    )
    return Picture("scaling", title, "; ".join(points), _TALL + 42, shapes)


def _y(share: float) -> float:
    return _TOP + (_TALL - _TOP) * (1 - share)


def _level(share: float, style: str = "rule") -> Stroke:
    return Stroke((0, _y(share)), (100, _y(share)), style)


def _levels(most: float) -> _Shapes:
    shapes: _Shapes = []
    for tick in choose_ticks(most, 4):
        shapes.append(_level(tick / most))
        if tick:
            shapes.append(Label(0, _y(tick / most) - 4, shorten(tick), "soft"))
    return shapes


def _curve(places: Sequence[Point]) -> _Shapes:
    strokes = (Stroke(a, b, "curve") for a, b in pairwise(places))
    return [*strokes, *(Dot(*place) for place in places)]


def _name_nodes(scale: Sequence[Scale], frame: Frame, widest: int, most: float) -> _Shapes:
    """Numbers of nodes and efficiencies, from the right, as far as there is room for them."""
    shapes: _Shapes = []
    last = 2.0
    for one in sorted(scale, key=lambda one: -one.nodes):
        share = one.nodes / widest
        if last - share < 0.11:
            continue
        last, x = share, frame.x(share)
        label = str(one.nodes) if shapes else f"{one.nodes} nodes"
        shapes.append(Label(x, _TALL + 18, label, "soft middle"))
        if one.rate > 0 and can_run(one.option):
            y = _y(one.rate / most) + 20
            shapes.append(Label(x, y, format_percent(one.efficiency), "ink small middle"))
        else:
            shapes.append(Label(x, _TALL + 34, "does not fit", "soft middle"))
    return shapes


def shorten(number: float) -> str:
    """``180 k``, ``1.2 M``."""
    for size, word in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:g} {word}"
    return f"{number:g}"
