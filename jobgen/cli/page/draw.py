"""Pieces of SVG: text that is escaped, shapes at shares of a width, colours with patterns.

A page is as wide as its reader's window, so its charts place things by per cent and keep their
letters' size; a slide has a fixed width in pixels. ``Frame`` is that difference. Every shape has
its colours as attributes, for programs that know no CSS, and a class, by which a page repaints it
in the dark. The hues are told apart by colour-blind readers (Okabe and
Ito, Color Universal Design, 2008); shades within a hue, patterns and letters do the same in black
and white.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from math import floor, log10
from typing import NamedTuple

from jobgen.cli.layout import clip, columns
from jobgen.cli.output import safe

INK, SOFT, RULE, PAPER = "#1a1a1a", "#595959", "#c8c8c8", "#ffffff"
BAD, BLUE = "#b3261e", "#2f86c5"
FONT = "system-ui, 'Segoe UI', Helvetica, Arial, sans-serif"


class Paint(NamedTuple):
    """A fill, the pattern upon it, and the colour of a letter upon both."""

    fill: str
    pattern: str = ""
    letter: str = "#ffffff"


_DARK = "#111111"
PAINTS = {
    "params": Paint("#0072b2"),
    "grads": Paint("#4a9bd8", letter=_DARK),
    "master": Paint("#8cc4ee", letter=_DARK),
    "moments": Paint("#c6e2f7", letter=_DARK),
    "gathered": Paint("#b04a8b", "rise"),
    "buckets": Paint("#cc79a7", "rise", _DARK),
    "temporary": Paint("#ecc3da", "rise", _DARK),
    "activations": Paint("#d55e00", "dots", _DARK),
    "logits": Paint("#f3ab4b", "dots", _DARK),
    "context": Paint("#666666", "bars"),
    "cache": Paint("#b3b3b3", "bars", _DARK),
    "compute": Paint("#0072b2"),
    "update": Paint("#8cc4ee", letter=_DARK),
    "exposed, in the node": Paint("#f3ab4b", "dots", _DARK),
    "exposed, network": Paint("#d55e00", "dots", _DARK),
    "bubble": Paint("#b3b3b3", "bars", _DARK),
    "offload": Paint("#b04a8b", "rise"),
}
OTHER = Paint("#e0d37a", "fall", _DARK)
"""Of a component that is not in the table."""
_STROKES = {
    "rise": '<path d="M-1 7 7 -1M-1 1 1 -1M5 7 7 5" stroke="{0}" stroke-width="1"/>',
    "fall": '<path d="M-1 -1 7 7M5 -1 7 1M-1 5 1 7" stroke="{0}" stroke-width="1"/>',
    "dots": '<circle cx="2" cy="2" r=".8" fill="{0}"/><circle cx="5" cy="5" r=".8" fill="{0}"/>',
    "bars": '<path d="M0 3H6" stroke="{0}" stroke-width="1"/>',
}


def escape(text: object) -> str:
    """Foreign text between tags or quotes; nothing in it is markup, or forbidden in XML."""
    return html.escape(safe(text).replace("\ufffe", "?").replace("\uffff", "?"))


def patterns() -> str:
    """What the fills refer to: once in a document."""
    found = ["<defs>"]
    for name, paint in {**PAINTS, "other": OTHER}.items():
        if paint.pattern:
            strokes = _STROKES[paint.pattern].format(paint.letter)
            found.append(
                f'<pattern id="{_id(name)}" width="6" height="6" patternUnits="userSpaceOnUse">'
                f'<rect width="6" height="6" fill="{paint.fill}"/>'
                f'<g opacity=".45">{strokes}</g></pattern>'
            )
    return "".join([*found, "</defs>"])


def fill(name: str) -> str:
    """The value of a fill."""
    paint = PAINTS.get(name, OTHER)
    if not paint.pattern:
        return paint.fill
    return f"url(#{_id(name if name in PAINTS else 'other')})"


def _id(name: str) -> str:
    return "paint-" + "".join(c for c in name if c.isalpha())


class Frame(NamedTuple):
    """Where shares of a width lie: in pixels, or in per cent of the picture."""

    left: float = 0.0
    width: float = 100.0
    unit: str = "%"

    def x(self, share: float) -> str:
        """A place."""
        return f"{_number(self.left + share * self.width)}{self.unit}"

    def w(self, share: float) -> str:
        """A length."""
        return f"{_number(share * self.width)}{self.unit}"


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


class Style(NamedTuple):
    """How text looks."""

    size: float = 13
    colour: str = INK
    kind: str = "ink"
    anchor: str = "start"
    bold: bool = False


PLAIN = Style()
SMALL = Style(12, SOFT, "soft")


def text(x: str, y: float, words: object, style: Style = PLAIN) -> str:
    """A line of text whose baseline is at ``y``."""
    weight = ' font-weight="600"' if style.bold else ""
    anchor = f' text-anchor="{style.anchor}"' if style.anchor != "start" else ""
    return (
        f'<text x="{x}" y="{_number(y)}" font-size="{_number(style.size)}" fill="{style.colour}" '
        f'class="{style.kind}"{weight}{anchor}>{escape(words)}</text>'
    )


def rect(x: str, y: float, width: str, height: float, name: str, title: str = "") -> str:
    """A box in the paint of that name; ``title`` is what a pointer over it shows."""
    inside = f"<title>{escape(title)}</title>" if title else ""
    return (
        f'<rect x="{x}" y="{_number(y)}" width="{width}" height="{_number(height)}" '
        f'fill="{fill(name)}" stroke="{PAPER}" stroke-width=".7" class="edge">{inside}</rect>'
    )


def outline(x: str, y: float, width: str, height: float) -> str:
    """An empty box: the edge of something pale."""
    return (
        f'<rect x="{x}" y="{_number(y)}" width="{width}" height="{_number(height)}" fill="none" '
        f'stroke="{SOFT}" stroke-width=".8" class="outline"/>'
    )


def line(
    start: tuple[str, float], end: tuple[str, float], kind: str = "rule", *, dash: str = ""
) -> str:
    """A straight line: ``rule``, ``mark``, ``bad``, ``curve`` or ``cut``."""
    colour, width = {
        "rule": (RULE, 1),
        "mark": (INK, 1.5),
        "bad": (BAD, 2),
        "curve": (BLUE, 2),
        "cut": (PAPER, 3),
    }[kind]
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<line x1="{start[0]}" y1="{_number(start[1])}" x2="{end[0]}" y2="{_number(end[1])}" '
        f'stroke="{colour}" stroke-width="{width}" class="{kind}"{dashes}/>'
    )


def fitted(words: object, size: float, width: float) -> str:
    """Text cut to so many pixels: a letter is taken to be 0.56 of its size wide."""
    return clip(safe(words), max(int(width / (size * 0.56)), 2))


def long(words: str, size: float) -> float:
    """About how many pixels a text needs."""
    return columns(words) * size * 0.56


def picture(
    name: str, said: tuple[str, str], body: Iterable[str], size: tuple[str, float], more: str = ""
) -> str:
    """An ``<svg>`` with a title and a description, as an image to those who do not see it."""
    title, description = said
    return (
        f'<svg {more}width="{size[0]}" height="{_number(size[1])}" role="img" '
        f'aria-labelledby="{name}-title {name}-desc" font-family="{FONT}">'
        f'<title id="{name}-title">{escape(title)}</title>'
        f'<desc id="{name}-desc">{escape(description)}</desc>{"".join(body)}</svg>'
    )


def ticks(most: float, about: int) -> list[float]:
    """About so many round numbers from 0 up to ``most``."""
    if most <= 0:
        return [0.0]
    rough = most / about
    power = 10.0 ** floor(log10(rough))
    step = next(power * n for n in (1, 2, 5, 10) if power * n >= rough * 0.999)
    return [i * step for i in range(int(most / step * 1.0001) + 1)]
