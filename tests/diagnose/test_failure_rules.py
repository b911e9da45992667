"""The rules of diagnosis, as data: no part of a row is dead."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pytest

from jobgen.diagnose.failure_rules import Rule, load_rules

_CLASSES = {"CATEGORY_DIGIT": "7", "CATEGORY_WORD": "a", "CATEGORY_SPACE": " "}


class Example(NamedTuple):
    """A text that fits a pattern, and the alternatives that it was written by."""

    text: str = ""
    chosen: frozenset[str] = frozenset()


def write_examples(pattern: Iterable[Any], place: str = "") -> Iterator[Example]:
    """Texts for the alternatives of a parsed pattern."""
    parts = [
        list(_write_part(str(op), value, f"{place}.{number}"))
        for number, (op, value) in enumerate(pattern)
    ]
    first = [part[0] for part in parts]
    yield _join(first)
    for number, part in enumerate(parts):
        for other in part[1:]:
            yield _join([*first[:number], other, *first[number + 1 :]])


def _join(parts: Sequence[Example]) -> Example:
    chosen = frozenset[str]().union(*(part.chosen for part in parts))
    return Example("".join(part.text for part in parts), chosen)


def _write_part(op: str, value: Any, place: str) -> Iterator[Example]:
    if op == "LITERAL":
        yield Example(chr(value))
    elif op == "BRANCH":
        for number, branch in enumerate(value[1]):
            name = f"{place}|{number}"
            for example in write_examples(branch, name):
                yield example._replace(chosen=example.chosen | {name})
    elif op == "SUBPATTERN":
        yield from write_examples(value[-1], place)
    elif op in ("MAX_REPEAT", "MIN_REPEAT"):
        low, high, inner = value
        counts = {low, min(high, 1)} if low < 2 else {low}
        for count in sorted(counts):
            yield from (e._replace(text=e.text * count) for e in write_examples(inner, place))
    elif op == "IN":
        kinds = [(str(kind), what) for kind, what in value]
        literal = [Example(chr(what)) for kind, what in kinds if kind == "LITERAL"]
        yield from literal or [Example(_CLASSES.get(str(kinds[0][1]), "x"))]
    elif op in ("ANY", "NOT_LITERAL"):
        yield Example("x")
    else:  # looks around, and places
        yield Example()


@pytest.mark.parametrize("rule", load_rules(), ids=lambda rule: f"{rule.cause}: {rule.needles[0]}")
def test_each_alternative_of_a_pattern_has_a_needle_by_which_it_is_found(rule: Rule) -> None:
    flags = rule.pattern.flags & ~re.UNICODE
    parsed = re._parser.parse(rule.pattern.pattern, flags)  # type: ignore[attr-defined]
    insensitive = "(?i" in rule.pattern.pattern
    needles = [needle.lower() if insensitive else needle for needle in rule.needles]
    reached: set[str] = set()
    written: dict[str, str] = {}
    for example in write_examples(parsed):
        text = example.text.lower() if insensitive else example.text
        reached |= example.chosen if any(needle in text for needle in needles) else set()
        written.update(dict.fromkeys(example.chosen, example.text))
    # of hosts and the like that stand beside what the pattern describes, none is in an example
    missed = {name: text for name, text in written.items() if reached and name not in reached}
    assert missed == {}
