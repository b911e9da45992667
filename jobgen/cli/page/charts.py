"""Bars: the memory of every strategy against the limit, and what takes the time of a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jobgen.cli.page import draw
from jobgen.cli.page.draw import OTHER, PAINTS, SMALL, Frame, Style
from jobgen.cli.screens.memory import gib, percent, runs, seconds
from jobgen.cli.screens.stack import LETTERS, letters
from jobgen.strategy.choice.values import Advice, Option
from jobgen.strategy.estimate import GIB, Step, Verdict

PAGE = Frame(0.5, 99.0)
_ROW, _BAR = 68, 22
_LETTER, _LETTER_PIXELS = 0.04, 14
"""The least share, or length, that has room for a letter: on a telephone, and on a slide."""
_MOST = 2.5
"""How often the limit, or five times the fastest step, a bar may be long before it is cut."""


BRIEF: dict[Verdict, str] = {
    "fits": "fits",
    "tight": "tight",
    "no": "does not fit",
    "unknown": "unknown",
}


class Part(NamedTuple):
    """A segment of a bar."""

    name: str
    letter: str
    amount: float
    said: str


class Bar(NamedTuple):
    """A row of a chart."""

    title: str
    told: str
    parts: tuple[Part, ...]
    chosen: bool = False
    brief: str = ""
    """The same in two or three words."""
    interval: tuple[float, float] | None = None

    @property
    def total(self) -> float:
        """Its length."""
        return sum(part.amount for part in self.parts)


def memory_bars(advice: Advice) -> list[Bar]:
    """A bar for each strategy."""
    found = []
    for option in advice.options:
        memory = option.memory
        parts = [part for part in memory.components if part.bytes > 0]
        low, high = gib(memory.low), gib(memory.high)
        found.append(
            Bar(
                option.title,
                f"{gib(memory.nvidia_smi)} GiB ({low}\u2013{high}), {verdict(option, advice)}",
                tuple(
                    Part(part.name, letter, part.bytes, f"{part.name} {gib(part.bytes)} GiB")
                    for letter, part in zip(letters(parts), parts, strict=True)
                ),
                option.chosen,
                f"{gib(memory.nvidia_smi)} GiB, {BRIEF[option.verdict]}",
                (memory.low, memory.high),
            )
        )
    return found


def verdict(option: Option, advice: Advice) -> str:
    """A verdict that is short enough to stand above a bar."""
    if option.verdict == "unknown":
        return "unknown"
    free = (advice.limit - option.memory.nvidia_smi) / advice.limit if advice.limit > 0 else 0.0
    if option.verdict == "no":
        return f"{percent(-free)} over the limit" if free < 0 else "does not fit"
    return f"{option.verdict}, {percent(free)} headroom"


def step_bars(advice: Advice) -> list[Bar]:
    """A bar for each strategy that can run and whose speed is known."""
    found = []
    for option in advice.options:
        step = option.step
        if step is None or step.seconds <= 0 or not runs(option):
            continue
        parts = tuple(
            Part(name, letter, amount, f"{name}: {seconds(amount)}")
            for name, letter, amount in spent(step)
            if amount > 0
        )
        told = f"{seconds(step.seconds)}, {step.rate:.0f} tokens/s/GPU"
        found.append(Bar(option.title, told, parts, option.chosen))
    return found


def spent(step: Step) -> list[tuple[str, str, float]]:
    """What a step's time goes into: name, letter, seconds."""
    links = {"node": 0.0, "network": 0.0}
    for volume in step.volumes:
        links[volume.link] += volume.exposed
    return [
        ("compute", "c", step.compute),
        ("exposed, in the node", "n", links["node"]),
        ("exposed, network", "x", links["network"]),
        ("bubble", "b", step.bubble),
        ("update", "u", step.update),
        ("offload", "o", step.offload),
    ]


# bars


def memory(advice: Advice) -> str:
    """Stacks of memory with the line of the limit."""
    bars = memory_bars(advice)
    whole = reach([bar.total for bar in bars], advice.limit)
    height = len(bars) * _ROW + 46
    limit = PAGE.x(advice.limit / whole)
    label = f"limit {gib(advice.limit)} GiB"
    anchor = "end" if advice.limit / whole > 0.5 else "start"
    body = [
        draw.text(limit, 14, label, Style(12, draw.BAD, "bad-ink", anchor, bold=True)),
        *_axis(whole / GIB, "GiB", height - 24),
    ]
    for i, bar in enumerate(bars):
        y = 24 + i * _ROW
        body.append(_row(bar, y, whole))
        # beside the words, not through them
        body.append(draw.line((limit, y + 33), (limit, y + _BAR + 43), "bad"))
    said = ("Memory per GPU of each strategy", "; ".join(f"{b.title}: {b.told}" for b in bars))
    return draw.picture("memory", said, body, ("100%", height))


def steps(advice: Advice) -> str:
    """What takes the time of a step."""
    bars = step_bars(advice)
    if not bars:
        return ""
    whole = reach([bar.total for bar in bars], 2 * min(bar.total for bar in bars))
    height = len(bars) * _ROW + 30
    body = [
        *_axis(whole, "s", height - 24),
        *(_row(bar, 8 + i * _ROW, whole) for i, bar in enumerate(bars)),
    ]
    said = ("Time of a step of each strategy", "; ".join(f"{b.title}: {b.told}" for b in bars))
    return draw.picture("steps", said, body, ("100%", height))


def reach(totals: Sequence[float], limit: float) -> float:
    """What the whole width stands for: the longest bar and the limit, if that is not too long."""
    longest = max([total for total in totals if total <= _MOST * limit], default=limit)
    cut = any(total > _MOST * limit for total in totals)
    return max(longest, limit, _MOST * limit if cut else 0.0) * 1.04 or 1.0


def _row(bar: Bar, y: float, whole: float) -> str:
    mark = "\u25b6 " if bar.chosen else ""
    told = f"{bar.brief or bar.told}; the bar is cut" if bar.total > whole else bar.told
    return "".join(
        [
            draw.text(PAGE.x(0), y + 13, f"{mark}{draw.fitted(bar.title, 13, 330)}", _bold(bar)),
            draw.text(PAGE.x(0), y + 29, told, SMALL),
            *segments(bar, PAGE, (y + 35, _BAR), whole),
        ]
    )


def _bold(bar: Bar) -> Style:
    return Style(13, bold=bar.chosen)


def segments(bar: Bar, frame: Frame, at: tuple[float, float], whole: float) -> list[str]:
    """The boxes of a bar with their letters, its interval, and a mark where it is cut."""
    (y, height), start = at, 0.0
    least = _LETTER if frame.unit else _LETTER_PIXELS / frame.width
    found = []
    for part in bar.parts:
        share = max(min(part.amount / whole, 1 - start), 0.0)
        if share > 0:
            found.append(draw.rect(frame.x(start), y, frame.w(share), height, part.name, part.said))
        if share >= least:
            colour = PAINTS.get(part.name, OTHER).letter
            style = Style(min(height * 0.6, 13), colour, "letter", "middle", bold=True)
            found.append(
                draw.text(frame.x(start + share / 2), y + height * 0.7, part.letter, style)
            )
        start += share
    found.append(draw.outline(frame.x(0), y, frame.w(start), height))
    if bar.total > whole:
        for back in (0.012, 0.022):
            place = frame.x(1 - back)
            found.append(draw.line((place, y - 1), (place, y + height + 1), "cut"))
    elif bar.interval:
        found += _whisker(bar.interval, frame, y + height + 5, whole)
    return found


def _whisker(interval: tuple[float, float], frame: Frame, y: float, whole: float) -> list[str]:
    """From the lower to the upper end of an interval, below the bar."""
    low, high = (frame.x(min(end / whole, 1)) for end in interval)
    ends = [draw.line((end, y - 3), (end, y + 3), "mark") for end in (low, high)]
    return [draw.line((low, y), (high, y), "mark"), *ends]


def _axis(whole: float, unit: str, y: float) -> list[str]:
    found = []
    for tick in draw.ticks(whole, 5):
        place = PAGE.x(tick / whole)
        found.append(draw.line((place, 20), (place, y)))
        if tick / whole < 0.94:
            style = SMALL._replace(anchor="middle" if tick else "start")
            label = f"{tick:g}" if tick else f"0 {unit}"
            found.append(draw.text(place, y + 16, label, style))
    return found


def used(bars: Sequence[Bar]) -> list[tuple[str, str]]:
    """Name and letter of everything that some bar shows, in the order of the table of letters."""
    found = {part.name: part.letter for bar in bars for part in bar.parts}
    order = [*LETTERS, *PAINTS]
    return sorted(found.items(), key=lambda item: _place(item[0], order))


def _place(name: str, order: Sequence[str]) -> int:
    return order.index(name) if name in order else len(order)
