"""Links lead somewhere, blocks are what their files say, and screens are what commands print."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.docs.pages import NAMES, ROOT, prose, taken, text

every_page = pytest.mark.parametrize("name", NAMES)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_TITLE = re.compile(r"^#+ (.+)$", re.MULTILINE)


def anchor(title: str) -> str:
    """What a title is called in a link."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


@every_page
def test_every_link_leads_to_a_file_and_a_title(name: str) -> None:
    page = ROOT / name
    for link in _LINK.findall(prose(name)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, title = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name}: {link} leads nowhere"
        assert target.is_relative_to(ROOT), f"{name}: {link} leads out of the repository"
        if title:
            titles = {anchor(t) for t in _TITLE.findall(target.read_text(encoding="utf-8"))}
            assert title in titles, f"{name}: {link} has no such title"


@every_page
def test_a_block_that_is_from_a_file_stands_in_it(name: str) -> None:
    for file, block in taken(name):
        assert block.strip(), f"{name}: nothing is shown of {file}"
        assert block in text(file), f"{name}: {file} no longer holds this:\n{block}"


@every_page
def test_every_marker_is_followed_by_its_block(name: str) -> None:
    markers = re.findall(r"^<!-- (?:screen|from)\b.*$", text(name), re.MULTILINE)
    blocks = re.findall(r"^<!-- (?:screen|from)\b.* -->\n```", text(name), re.MULTILINE)
    assert len(markers) == len(blocks)


@pytest.mark.slow
def test_screens_are_what_the_commands_print() -> None:
    words = [sys.executable, "scripts/screens", "--check"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
