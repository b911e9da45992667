"""Each answer of the page on memory is what jobgen says: the numbers stand on its own screen.

That screens are what the commands print is held in ``test_pages.py``.
"""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import text

PAGE = "docs/explanation/memory.md"
_SCREEN = re.compile(r"^<!-- screen: ([^\n]+) -->\n```console\n\$ [^\n]+\n(.*?)```$", re.M | re.S)
_NUMBER = re.compile(
    r"\d[\d,]*\.\d+|\d[\d,.]*(?= (?:GiB|TiB|%|ms|s|tokens/s/GPU)\b)|\d[\d,]*(?= %)"
)


def answers() -> dict[str, str]:
    """What is commonly said → what stands below it."""
    parts = re.split(r"^### (.+)\n", text(PAGE), flags=re.M)[1:]
    said = [re.split(r"^## ", part, flags=re.M)[0] for part in parts[1::2]]
    return dict(zip(parts[::2], said, strict=True))


ANSWERS = answers()
every_answer = pytest.mark.parametrize("said", ANSWERS)


def numbers(answer: str) -> list[str]:
    """Numbers of an answer's own words: with decimals, or with a unit."""
    true = re.search(r"^\*\*True:\*\* (.*?)\n\n", answer, re.M | re.S)
    assert true, "there is no answer"
    return _NUMBER.findall(true[1])


@every_answer
def test_every_number_of_an_answer_stands_on_its_screen(said: str) -> None:
    shown = "".join(screen for _, screen in _SCREEN.findall(ANSWERS[said]))
    for number in numbers(ANSWERS[said]):
        here = rf"(?<![\d.,]){re.escape(number)}(?!\d|[,.]\d)"
        assert re.search(here, shown), f"{said}: {number} is not on the screen:\n{shown}"


@every_answer
def test_every_answer_has_a_command_and_a_source(said: str) -> None:
    commands = [command for command, _ in _SCREEN.findall(ANSWERS[said])]
    assert len(commands) == 1
    assert "jobgen " in commands[0]
    source = re.search(r"^Source: (.+)", ANSWERS[said], re.M)
    assert source, "no source is named"
    assert re.search(r"arXiv:|`|datasheet|issue|table", source[1])


def test_most_answers_have_a_number() -> None:
    counted = [said for said, answer in ANSWERS.items() if numbers(answer)]
    assert len(ANSWERS) >= 30
    assert len(counted) >= len(ANSWERS) * 2 / 3
