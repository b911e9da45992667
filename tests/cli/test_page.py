"""The planner's answer as a page: whole, harmless, and alone."""

import re
from html.parser import HTMLParser
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markupsafe import escape

from jobgen.cli.output import defuse
from jobgen.cli.page import bars, paints, shapes
from jobgen.cli.page.plan_page import write_plan_page
from jobgen.cli.screens.memory_parts import to_gib
from jobgen.strategy.choice.offer import Advice, Offer
from jobgen.strategy.estimate import GIB
from tests.cli import advised as made
from tests.cli.test_screens_memory import hostile

VOID = {"meta", "br"}
AWAY = re.compile(
    r"https?:|//[a-z]|url\((?!#)|@import|<script|<link|<iframe|javascript:|\bon\w+=", re.I
)


class Reader(HTMLParser):
    """Fails where tags do not match; keeps tags and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(text: str) -> Reader:
    """The page, whose tags are balanced."""
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


def pictures(text: str) -> list[ET.Element]:
    """The pictures of a page, which are XML."""
    return [ET.fromstring(svg) for svg in re.findall(r"<svg .*?</svg>", text, re.S)]  # noqa: S314


def escaped(text: str) -> str:
    """Foreign text as it belongs in a page."""
    return str(escape(defuse(text).replace("\ufffe", "?")))


def page(answer: Advice = made.ADVICE) -> str:
    """With everything on it."""
    return write_plan_page(answer, "llama on a100x16", offers=made.OFFERS, tokens=1e9)


@pytest.mark.parametrize("answer", [made.ADVICE, made.NONE, hostile()])
def test_a_page_is_balanced_and_needs_nothing_beside_it(answer: Advice) -> None:
    text = page(answer)
    read(text)
    # words of others are text, not markup: what they seem to refer to is escaped
    bare = text.replace(escaped(made.HOSTILE), "")
    assert not AWAY.search(bare)
    assert "prefers-color-scheme:dark" in text
    assert "@media print" in text


@pytest.mark.parametrize("answer", [made.ADVICE, made.NONE, hostile()])
def test_every_picture_has_a_title_and_a_description(answer: Advice) -> None:
    reader = read(page(answer))
    ids = [attrs["id"] for _, attrs in reader.tags if "id" in attrs]
    assert len(set(ids)) == len(ids)
    pictures = [a for tag, a in reader.tags if tag == "svg" and a.get("aria-hidden") != "true"]
    assert pictures
    for attrs in pictures:
        assert attrs["role"] == "img"
        assert set(str(attrs["aria-labelledby"]).split()) <= set(ids)
    used = set(re.findall(r"url\(#([^)]+)\)", page(answer)))
    assert used <= set(ids)


def test_every_number_of_a_picture_stands_in_a_table() -> None:
    words = set(read(page()).text)
    for option in made.ADVICE.options:
        assert option.title in words or f"\u25b6 {option.title}" in words
        assert to_gib(option.memory.nvidia_smi) in words
        assert {to_gib(part.bytes) for part in option.memory.components if part.bytes} <= words
    assert {"89,000", "172,000", "310,000", "87 %", "444 EUR"} <= words
    assert set(made.ADVICE.doubts) | set(made.ADVICE.why) <= words


def test_foreign_text_is_text_on_a_page() -> None:
    answer = hostile()
    text = write_plan_page(answer, made.HOSTILE)
    assert "<script" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "&lt;script&gt;" in text
    assert "<script>alert('x')</script>" in "".join(read(write_plan_page(answer)).text)


@given(st.text(max_size=40))
@settings(max_examples=60)
def test_any_name_gives_pictures_that_are_xml(name: str) -> None:
    answer = made.ADVICE._replace(options=(made.FSDP._replace(title=name),), chosen=None)
    text = write_plan_page(answer, name)
    read(text)
    assert len(pictures(text)) > 2


def test_an_answer_without_anything_is_still_a_page() -> None:
    empty = Advice(made.A100, 80 * GIB, (), None)
    read(write_plan_page(empty))
    odd = made.FSDP._replace(step=None, memory=made.memory())
    read(write_plan_page(made.ADVICE._replace(options=(odd,), chosen=odd, scale=())))


def test_the_same_answer_gives_the_same_bytes() -> None:
    assert page() == page()


# the bars


def crowd(number: int) -> Advice:
    """So many strategies, the last of them chosen, one of them huge."""
    huge = made.DDP._replace(memory=made.memory(*[900.0] * 11))
    rows = [made.ZERO2._replace(title=f"ZeRO-2 with a long name {i}") for i in range(number - 2)]
    options = (huge, *rows, made.FSDP)
    return made.ADVICE._replace(options=options)


def across(shape: ET.Element, key: str) -> float:
    """A place or a length, in per cent of the picture."""
    return float(str(shape.get(key)).removesuffix("%"))


def memory_picture(answer: Advice) -> ET.Element:
    """The picture of the memory."""
    name = "memory-title memory-desc"
    return next(p for p in pictures(write_plan_page(answer)) if p.get("aria-labelledby") == name)


@pytest.mark.parametrize("answer", [made.ADVICE, made.NONE, crowd(12), hostile()])
def test_nothing_in_a_picture_lies_outside_of_it(answer: Advice) -> None:
    picture = memory_picture(answer)
    height = float(str(picture.get("height")))
    for shape in picture.iter():
        if shape.tag in ("rect", "text"):
            assert 0 <= across(shape, "x") <= 100
            assert 0 <= float(str(shape.get("y"))) <= height
        if shape.tag == "rect":
            assert across(shape, "x") + across(shape, "width") <= 100.1


def test_the_segments_of_a_bar_are_as_long_as_their_shares_and_meet() -> None:
    picture = memory_picture(made.ADVICE._replace(options=(made.DDP,), chosen=None))
    boxes = [b for b in picture.findall("rect") if b.find("title") is not None]
    parts = [part for part in made.DDP.memory.components if part.bytes > 0]
    assert len(boxes) == len(parts)
    start = end = across(boxes[0], "x")
    scale = sum(across(box, "width") for box in boxes) / sum(part.bytes for part in parts)
    for box, part in zip(boxes, parts, strict=True):
        assert across(box, "x") == pytest.approx(end, abs=0.1)
        assert across(box, "width") == pytest.approx(part.bytes * scale, abs=0.1)
        end += part.bytes * scale
    limit = next(e for e in picture.findall("line") if e.get("class") == "bad")
    assert across(limit, "x1") == pytest.approx(start + 80 * GIB * scale, abs=0.1)


def test_a_bar_that_is_far_too_long_is_cut_and_says_so() -> None:
    assert "needs 9243 GiB, does not fit; the bar is cut" in write_plan_page(crowd(4))
    cuts = [e for e in memory_picture(crowd(4)).findall("line") if e.get("class") == "cut"]
    assert len(cuts) == 2


# pieces


@given(st.floats(0.001, 1e13), st.integers(3, 8))
def test_ticks_are_round_even_and_within(most: float, about: int) -> None:
    found = shapes.choose_ticks(most, about)
    assert found[0] == 0
    assert found[-1] <= most * 1.001
    assert about / 2.6 <= len(found) <= about + 2
    steps = [b - a for a, b in pairwise(found)]
    assert all(step == pytest.approx(steps[0]) for step in steps)
    assert f"{steps[0]:e}"[0] in "125"


def test_letters_stand_out_from_their_paint() -> None:
    for paint in (*paints.PAINTS.values(), paints.OTHER):
        assert contrast(paint.fill, paint.letter) >= 4.5
    shades = [paints.PAINTS[name].fill for name in ("params", "grads", "master", "moments")]
    assert all(contrast(a, b) >= 1.3 for a, b in pairwise(shades))


def contrast(one: str, other: str) -> float:
    """Of two colours, as WCAG 2 counts it."""
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    """Relative luminance of ``#rrggbb``."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_a_step_is_divided_without_a_rest() -> None:
    for option in made.ADVICE.options:
        assert option.step is not None
        total = sum(amount for _, _, amount in bars.list_step_parts(option.step))
        assert total == pytest.approx(option.step.seconds)


def test_without_offers_no_cluster_is_named() -> None:
    assert "other clusters" not in write_plan_page(made.ADVICE)
    free = (Offer("free", made.FSDP, 1.0),)
    assert ">free<" in write_plan_page(made.ADVICE, offers=free, tokens=1.0)
