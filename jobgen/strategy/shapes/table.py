"""The models of the Hub whose sizes are known without asking it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, lru_cache

from jobgen.data import HubModel, shapes
from jobgen.strategy.shapes.architecture import Architecture
from jobgen.strategy.shapes.config_keys import KEYS
from jobgen.strategy.shapes.families import FAMILIES
from jobgen.strategy.shapes.read import read

_WORDS: Mapping[str, object] = {"true": True, "false": False, "null": None}


@lru_cache(maxsize=64)
def find_model(name: str) -> Architecture | None:
    """The sizes of a model by its id on the Hub, in any case; None where it is not in the table.

    The last part alone will do: ``Llama-3.1-8B``. The shape of a variant (-Instruct, -chat) is that
    of its base model. A model that also sees is known by its text part.
    """
    row = _index().get(name.strip().lower())
    return read(build_config(row), row.id)[0] if row else None


def find_config(name: str) -> dict[str, object] | None:
    """What its config.json says of its sizes; None where it is not in the table."""
    row = _index().get(name.strip().lower())
    return build_config(row) if row else None


def suggest_models(name: str) -> list[str]:
    """The id that this one continues (``-Base``), those most like it, then those that continue it:
    three; empty where none is."""
    from difflib import get_close_matches

    spelled = {word.rpartition("/")[2].lower(): word for row in shapes() for word in _names(row)}
    last = name.strip().rpartition("/")[2].lower()
    longer = sorted((word for word in spelled if last and word.startswith(last)), key=len)
    shorter = sorted((word for word in spelled if last.startswith(f"{word}-")), key=len)[-1:]
    words = [*shorter, *get_close_matches(last, spelled, n=3, cutoff=0.75), *longer]
    return [spelled[word] for word in dict.fromkeys(words)][:3]


def build_config(row: HubModel) -> dict[str, object]:
    """What the model's config.json says of its sizes, in the words of its type."""
    keys = {**KEYS, **FAMILIES[row.type].keys}
    said = {keys[size][0]: count for size, count in row.sizes.items() if count and keys[size]}
    also = (word.partition("=") for word in row.also)
    values = {key: _value(value) for key, _, value in also}
    return {"model_type": row.type, **said, **values}


def _value(word: str) -> object:
    if word in _WORDS:
        return _WORDS[word]
    return float(word) if "." in word else int(word)


@cache
def _index() -> Mapping[str, HubModel]:
    found: dict[str, HubModel] = {}
    for row in shapes():
        for name in _names(row):
            found[name.lower()] = row
            found.setdefault(name.rpartition("/")[2].lower(), row)
    return found


def _names(row: HubModel) -> Iterator[str]:
    yield row.id
    yield from row.aliases
