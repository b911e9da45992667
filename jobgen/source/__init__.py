"""YAML text → plain data, with the place of every key and value. YAML 1.2, and nothing clever.

Read from the event stream of PyYAML's C parser, so that aliases, tags and depth are refused before
anything is built. All problems of a file are found at once, as far as its syntax can be followed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from jobgen.errors import Diagnostic, Invalid, Place
from jobgen.named_tuple import NamedTuple
from jobgen.source.characters import SHOWN, strip_unseen
from jobgen.source.reader import Path, YamlReader
from jobgen.source.scalars import Flag, Real, Scalar, WrittenInt, resolve_scalar

__all__ = [
    "LIMIT",
    "Flag",
    "Real",
    "Scalar",
    "Source",
    "WrittenInt",
    "parse",
    "resolve_scalar",
    "scan",
]

LIMIT = 1 << 20
"""The most bytes a file may have."""


class Source(NamedTuple):
    """What stands in a file. A value that was refused is None, and its path is spoiled."""

    label: str
    data: dict[str, Any]
    places: Mapping[Path, Place]
    """Of each key, and of each item of a list."""
    digest: str
    values: Mapping[Path, Place] = {}
    """Of each value."""
    spoiled: frozenset[Path] = frozenset()
    problems: tuple[Diagnostic, ...] = ()


def parse(text: str, label: str) -> Source:
    """The data of a file. Raises Invalid with every problem in its YAML."""
    source = scan(text, label)
    if source.problems:
        raise Invalid(*source.problems)
    return source


def scan(text: str, label: str) -> Source:
    """The data of a file as far as it can be read, and the problems. Never raises."""
    raw = text.encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(raw).hexdigest()
    if len(raw) > LIMIT:
        hint = "put the data into a file in the workdir"
        problem = Diagnostic("J111", "the file is larger than 1 MiB", Place(label), hint)
        return Source(label, {}, {}, digest, problems=(problem,))
    problems, clean = strip_unseen(text, label)
    reader = YamlReader(label, clean)
    if len(problems) <= SHOWN and (clean or not problems):
        reader.read()
    lines = {p.place.line for p in problems if p.place}
    problems += [p for p in reader.problems if not (p.place and p.place.line in lines)]
    data = reader.data if isinstance(reader.data, dict) else {}
    spoiled = reader.spoiled | {p for p, place in reader.values.items() if place.line in lines}
    return Source(
        label, data, reader.places, digest, reader.values, frozenset(spoiled), tuple(problems)
    )
