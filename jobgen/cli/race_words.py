"""The words of ``--race`` as the key ``race``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from jobgen.errors import Usage

_HINT = "write --race partition=short,long, or one --race partition=long,nodes=2 per entry"


def write_race(words: Sequence[str]) -> str:
    """The list of entries as ``--set`` takes it.

    >>> write_race(["partition=short,long"])
    '[{"partition": "short"}, {"partition": "long"}]'
    >>> write_race(["partition=short", "partition=long,qos=high"])
    '[{"partition": "short"}, {"partition": "long", "qos": "high"}]'
    """
    return json.dumps([entry for word in words for entry in _list_entries(word)])


def _list_entries(word: str) -> list[Mapping[str, str]]:
    """One entry of several options, or one entry for each value of an option."""
    first, *more = [part.strip() for part in word.split(",")]
    name, equals, value = first.partition("=")
    if not equals or not name or not value:
        raise Usage(f"--race {word}: expected OPTION=VALUE", hint=_HINT)
    if not any("=" in part for part in more):
        return [{name: each} for each in (value, *more)]
    pairs = [part.partition("=") for part in (first, *more)]
    if not all(key and equals and text for key, equals, text in pairs):
        raise Usage(f"--race {word}: both several options and several values", hint=_HINT)
    return [{key: text for key, _, text in pairs}]
