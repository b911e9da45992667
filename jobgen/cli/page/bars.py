"""Bars: the memory of every strategy against the limit, and what takes the time of a step."""

from __future__ import annotations

from collections.abc import Sequence

from jobgen.cli.layout import format_percent
from jobgen.cli.page.paints import PAINTS, get_fill, get_paint
from jobgen.cli.page.shapes import Box, Frame, Label, Legend, Picture, Stroke, choose_ticks, fit
from jobgen.cli.screens.memory import can_run
from jobgen.cli.screens.memory_parts import to_gib
from jobgen.cli.screens.stack import LETTERS, MEANT, choose_letters
from jobgen.cli.screens.step_speed import format_rate, format_time
from jobgen.named_tuple import NamedTuple
from jobgen.strategy.choice.offer import Advice, StrategyOption
from jobgen.strategy.estimate import GIB, StepTime, Verdict

_FRAME = Frame(0.5, 99.0)
_ROW, _HEIGHT = 68, 22
_LETTER = 0.04
"""The least share that has room for a letter on a telephone."""
_MOST = 2.5
"""How often the limit, or five times the fastest step, a bar may be long before it is cut."""


_BRIEF: dict[Verdict, str] = {
    "fits": "fits",
    "tight": "tight",
    "no": "does not fit",
    "unknown": "unknown",
}


class Segment(NamedTuple):
    """A segment of a bar."""

    name: str
    letter: str
    amount: float
    hint: str


class Bar(NamedTuple):
    """A row of a chart."""

    title: str
    text: str
    parts: tuple[Segment, ...]
    chosen: bool = False
    brief: str = ""
    """The same in two or three words."""
    interval: tuple[float, float] | None = None

    @property
    def total(self) -> float:
        """Its length."""
        return sum(part.amount for part in self.parts)


def list_memory_bars(advice: Advice) -> list[Bar]:
    """A bar for each strategy."""
    rows = []
    for option in advice.options:
        memory = option.memory
        parts = [part for part in memory.components if part.bytes > 0]
        low, high = to_gib(memory.low), to_gib(memory.high)
        rows.append(
            Bar(
                option.title,
                f"needs {to_gib(memory.needed)} GiB, {_judge(option, advice)}; "
                f"{to_gib(memory.nvidia_smi)} ({low}\u2013{high}) in nvidia-smi",
                tuple(
                    Segment(part.name, letter, part.bytes, f"{part.title} {to_gib(part.bytes)} GiB")
                    for letter, part in zip(choose_letters(parts), parts, strict=True)
                ),
                option.chosen,
                f"needs {to_gib(memory.needed)} GiB, {_BRIEF[option.verdict]}",
                (memory.low, memory.high),
            )
        )
    return rows


def _judge(option: StrategyOption, advice: Advice) -> str:
    """A verdict that is short enough to stand above a bar."""
    if option.verdict == "unknown":
        return "unknown"
    free = (advice.limit - option.memory.needed) / advice.limit if advice.limit > 0 else 0.0
    if option.verdict == "no":
        return f"{format_percent(-free)} over the limit" if free < 0 else "does not fit"
    return f"{option.verdict}, {format_percent(free)} free"


def list_step_bars(advice: Advice) -> list[Bar]:
    """A bar for each strategy that can run and whose speed is known."""
    rows = []
    for option in advice.options:
        step = option.step
        if step is None or step.seconds <= 0 or not can_run(option):
            continue
        parts = tuple(
            Segment(name, letter, amount, f"{name}: {format_time(amount)}")
            for name, letter, amount in list_step_parts(step)
            if amount > 0
        )
        text = f"{format_time(step.seconds)}, {format_rate(step)}"
        rows.append(Bar(option.title, text, parts, option.chosen))
    return rows


def list_step_parts(step: StepTime) -> list[tuple[str, str, float]]:
    """What a step's time goes into, communication by link: name, letter, seconds."""
    return [
        ("compute", "c", step.compute),
        ("exposed, in the node", "n", step.get_exposed("node")),
        ("exposed, network", "x", step.get_exposed("network")),
        ("bubble", "b", step.bubble),
        ("update", "u", step.update),
        ("offload", "o", step.offload),
    ]


def draw_memory_bars(advice: Advice) -> Picture:
    """Stacks of memory with the line of the limit."""
    rows = list_memory_bars(advice)
    width = _reach([row.total for row in rows], advice.limit)
    height = len(rows) * _ROW + 46
    limit = _FRAME.x(advice.limit / width)
    end = " end" if advice.limit / width > 0.5 else ""
    label = Label(limit, 14, f"limit {to_gib(advice.limit)} GiB", f"bad-ink{end}")
    shapes = [label, *_axis(width / GIB, "GiB", height - 24)]
    for number, row in enumerate(rows):
        y = 24 + number * _ROW
        # beside the words, not through them
        line = Stroke((limit, y + 33), (limit, y + _HEIGHT + 43), "bad")
        shapes += [*_row(row, y, width), line]
    return _picture("memory", "Memory per GPU of each strategy", rows, height, shapes)


def draw_steps(advice: Advice) -> Picture:
    """What takes the time of a step."""
    rows = list_step_bars(advice)
    width = _reach([row.total for row in rows], 2 * min(row.total for row in rows))
    height = len(rows) * _ROW + 30
    shapes = _axis(width, "s", height - 24)
    for number, row in enumerate(rows):
        shapes += _row(row, 8 + number * _ROW, width)
    return _picture("steps", "Time of a step of each strategy", rows, height, shapes)


_Shapes = list[Label | Stroke | Box]


def _picture(name: str, title: str, rows: Sequence[Bar], height: float, shapes: _Shapes) -> Picture:
    description = "; ".join(f"{row.title}: {row.text}" for row in rows)
    return Picture(name, title, description, height, shapes)


def _reach(totals: Sequence[float], limit: float) -> float:
    """What the whole width stands for: the longest bar and the limit, if that is not too long."""
    longest = max([total for total in totals if total <= _MOST * limit], default=limit)
    cut = any(total > _MOST * limit for total in totals)
    return max(longest, limit, _MOST * limit if cut else 0.0) * 1.04 or 1.0


def _row(bar: Bar, y: float, width: float) -> _Shapes:
    mark = "\u25b6 " if bar.chosen else ""
    text = f"{bar.brief or bar.text}; the bar is cut" if bar.total > width else bar.text
    return [
        Label(_FRAME.x(0), y + 13, mark + fit(bar.title, 13, 330), "ink strong" if mark else "ink"),
        Label(_FRAME.x(0), y + 29, text, "soft"),
        *_segments(bar, y + 35, width),
    ]


def _segments(bar: Bar, y: float, width: float) -> _Shapes:
    """The boxes of a bar with their letters, its interval, and a mark where it is cut."""
    start, shapes = 0.0, list[Label | Stroke | Box]()
    for part in bar.parts:
        share = max(min(part.amount / width, 1 - start), 0.0)
        if share > 0:
            place = (_FRAME.x(start), y, _FRAME.w(share), _HEIGHT)
            shapes.append(Box(*place, get_fill(part.name), title=part.hint))
        if share >= _LETTER:
            shapes.append(_letter(_FRAME.x(start + share / 2), y + _HEIGHT * 0.7, part))
        start += share
    shapes.append(Box(_FRAME.x(0), y, _FRAME.w(start), _HEIGHT, style="outline"))
    bottom = y + _HEIGHT
    if bar.total > width:
        ends = (_FRAME.x(1 - 0.012), _FRAME.x(1 - 0.022))
        shapes += [Stroke((end, y - 1), (end, bottom + 1), "cut") for end in ends]
    elif bar.interval:
        low, high = (_FRAME.x(min(end / width, 1)) for end in bar.interval)
        shapes.append(Stroke((low, bottom + 5), (high, bottom + 5), "mark"))
        shapes += [Stroke((end, bottom + 2), (end, bottom + 8), "mark") for end in (low, high)]
    return shapes


def _letter(x: float, y: float, part: Segment) -> Label:
    return Label(x, y, part.letter, "letter", get_paint(part.name).letter)


def _axis(most: float, unit: str, y: float) -> _Shapes:
    shapes: _Shapes = []
    for tick in choose_ticks(most, 5):
        place = _FRAME.x(tick / most)
        shapes.append(Stroke((place, 20), (place, y)))
        if not tick:
            shapes.append(Label(place, y + 16, f"0 {unit}", "soft"))
        elif tick / most < 0.94:
            shapes.append(Label(place, y + 16, f"{tick:g}", "soft middle"))
    return shapes


def explain_paints(rows: Sequence[Bar]) -> Legend:
    """What each paint and letter stands for, in the order of the table of letters."""
    return Legend(
        [
            (
                Box(0, 0, 100, 20, get_fill(name)),
                _letter(50, 15, Segment(name, letter, 0, "")),
                MEANT.get(name, name),
            )
            for name, letter in list_paints(rows)
        ]
    )


def list_paints(rows: Sequence[Bar]) -> list[tuple[str, str]]:
    """Name and letter of everything that some bar shows, in the order of the table of letters."""
    named = {part.name: part.letter for row in rows for part in row.parts}
    order = [*LETTERS, *PAINTS]
    return sorted(
        named.items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order)
    )
