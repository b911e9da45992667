"""What stands on a page: pictures with their shapes, tables, paragraphs. Laid out by a template.

Places across are per cent, because a page is as wide as its reader's window; places down are
pixels. ``kind`` tells the template which markup a value gets, ``style`` is a class of style.css.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log10

from jobgen.cli.layout import clip
from jobgen.cli.output import defuse
from jobgen.cli.page.paints import Paint
from jobgen.named_tuple import NamedTuple

Point = tuple[float, float]


class Label(NamedTuple):
    """A line of text whose baseline is at ``y``."""

    x: float
    y: float
    text: object
    style: str = "ink"
    fill: str = ""
    kind: str = "label"


class Stroke(NamedTuple):
    """A straight line."""

    start: Point
    end: Point
    style: str = "rule"
    kind: str = "stroke"


class Box(NamedTuple):
    """A rectangle; ``title`` is what a pointer over it shows."""

    x: float
    y: float
    width: float
    height: float
    fill: str = "none"
    style: str = "edge"
    title: str = ""
    kind: str = "box"


class Dot(NamedTuple):
    """A point of a curve."""

    x: float
    y: float
    kind: str = "dot"


class Picture(NamedTuple):
    """Shapes, with a title and a description for those who do not see them."""

    name: str
    title: str
    description: str
    height: float
    shapes: Sequence[Label | Stroke | Box | Dot]
    kind: str = "picture"


class Legend(NamedTuple):
    """Each paint with its letter and what it stands for."""

    entries: Sequence[tuple[Box, Label, str]]
    kind: str = "legend"


class PageTable(NamedTuple):
    """A table whose first column names its rows; the last ``sentences`` columns are sentences."""

    caption: str
    heads: Sequence[object]
    rows: Sequence[Sequence[object]]
    sentences: int = 0
    chosen: int = -1
    """The row of the chosen strategy."""
    kind: str = "table"


class Paragraph(NamedTuple):
    """A line of text."""

    text: str
    kind: str = "paragraph"


class Bullets(NamedTuple):
    """A list."""

    lines: Sequence[str]
    kind: str = "bullets"


class Banner(NamedTuple):
    """What a page comes to; ``mark`` is fits, tight, no or unknown."""

    mark: str
    summary: str
    text: str
    kind: str = "verdict"


Item = Picture | Legend | PageTable | Paragraph | Bullets | Banner


class Section(NamedTuple):
    """A part of a page with a heading."""

    name: str
    title: str
    items: Sequence[Item]


class Page(NamedTuple):
    """A whole page."""

    title: str
    head: Sequence[Item]
    sections: Sequence[Section]
    patterns: Sequence[tuple[str, Paint]] = ()
    """What fills refer to."""


class Frame(NamedTuple):
    """Where shares of a picture's width lie, in per cent."""

    left: float
    width: float

    def x(self, share: float) -> float:
        """A place."""
        return self.left + share * self.width

    def w(self, share: float) -> float:
        """A length."""
        return share * self.width


def fit(words: object, size: float, width: float) -> str:
    """Text cut to so many pixels: a letter is taken to be 0.56 of its size wide."""
    return clip(defuse(words), max(int(width / (size * 0.56)), 2))


def choose_ticks(most: float, about: int) -> list[float]:
    """About so many round numbers from 0 up to ``most``."""
    if most <= 0:
        return [0.0]
    rough = most / about
    power = 10.0 ** floor(log10(rough))
    step = next(power * n for n in (1, 2, 5, 10) if power * n >= rough * 0.999)
    return [i * step for i in range(int(most / step * 1.0001) + 1)]


def write_page(page: Page) -> str:
    """The HTML of a page. It holds no script and no address, and foreign text is escaped."""
    from jinja2 import FileSystemLoader, StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    from jobgen.catalog import find_shipped

    environment = ImmutableSandboxedEnvironment(
        loader=FileSystemLoader(find_shipped("templates") / "page"),
        undefined=StrictUndefined,
        finalize=_write_value,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("page.html.j2").render(page=page)


def _write_value(value: object) -> object:
    """Numbers with two digits behind the point; of text, what is allowed in XML."""
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    if type(value) is str:
        return defuse(value).replace("\ufffe", "?").replace("\uffff", "?")
    return value
