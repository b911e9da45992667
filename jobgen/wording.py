"""Numbers and lists in a sentence."""

from __future__ import annotations

from collections.abc import Sequence


def count(number: int, word: str, many: str = "") -> str:
    """``1 file``, ``2,000 files``."""
    return f"{number:,} {word if number == 1 else many or word + 's'}"


def join_words(words: Sequence[str], last: str) -> str:
    """A list in a sentence.

    >>> join_words(["a"], "or"), join_words(["a", "b"], "or"), join_words(["a", "b", "c"], "and")
    ('a', 'a or b', 'a, b and c')
    """
    return ", ".join([*words[:-2], f" {last} ".join(words[-2:])])
