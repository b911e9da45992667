"""Numbers, values and lists in a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def count(number: int, word: str, many: str = "") -> str:
    """``1 file``, ``2,000 files``."""
    return f"{number:,} {word if number == 1 else many or word + 's'}"


def format_value(value: object) -> str:
    """A value as YAML has it: ``true`` and ``false`` in lower case."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def join_pairs(values: Mapping[str, str]) -> str:
    """Names with their values: ``LR=1e-5,SEED=0``."""
    return ",".join(f"{name}={value}" for name, value in values.items())


def join_words(words: Sequence[str], last: str) -> str:
    """A list in a sentence.

    >>> join_words(["a"], "or"), join_words(["a", "b"], "or"), join_words(["a", "b", "c"], "and")
    ('a', 'a or b', 'a, b and c')
    """
    return ", ".join([*words[:-2], f" {last} ".join(words[-2:])])


def name_ranks(ranks: Sequence[int]) -> str:
    """Ranks in a sentence; of many the first.

    >>> name_ranks([3]), name_ranks([1, 2]), name_ranks(range(9))
    ('rank 3', 'ranks 1, 2', 'ranks 0, 1, 2, 3 and 5 more')
    """
    shown = ", ".join(map(str, ranks if len(ranks) < 6 else ranks[:4]))
    more = f" and {len(ranks) - 4} more" if len(ranks) > 5 else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}{more}"
