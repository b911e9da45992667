from __future__ import annotations

import pytest

from jobgen.data.unseen import is_unseen


@pytest.mark.parametrize(
    "char", ["\u3164", "\uffa0", "\u115f", "\u034f", "\u2800", "\U000e0100", "\u200b", "\x9b"]
)
def test_what_shows_nothing_is_unseen(char: str) -> None:
    assert is_unseen(char)


@pytest.mark.parametrize("char", ["a", "\u00e9", "\u6f22", "\ufe0f", "\U0001f600", " "])
def test_what_is_read_is_not(char: str) -> None:
    assert not is_unseen(char)
