"""Why jobs die: the causes that ``diagnose`` names, from ``codes/causes.toml``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from jobgen.named_tuple import NamedTuple


class KnownCause(NamedTuple):
    """One cause of failed jobs."""

    key: str
    code: str
    """For ``jobgen explain CODE``."""
    title: str
    retry: str
    """Whether the same command has a fair chance: ``no``, ``yes`` or ``other_nodes``."""
    retry_after_steps: str
    """The same once the training has made a step: what worked for a while is set correctly."""
    one_node: bool
    """Whether it lies in a node where that node alone reports it."""
    blames: str
    """``job`` or ``node`` where it is never the fault of the rank that reports it, else empty."""
    fixes: tuple[str, ...]
    """What to do, cheapest first: commands, or sentences."""
    outranks: frozenset[str]
    """Causes that follow from this one, where both are seen."""


@cache
def causes() -> Mapping[str, KnownCause]:
    """Every cause, by its key."""
    import tomllib

    path = Path(__file__).parent / "codes" / "causes.toml"
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    known = {}
    for code, row in table.items():
        key, outranked = row["cause"], frozenset(row.get("outranks", ()))
        retry = row.get("retry", "no")
        known[key] = KnownCause(
            key, code, row["title"], retry, row.get("retry_after_steps", retry),
            row.get("one_node", False), row.get("blames", ""), tuple(row["fixes"]), outranked,
        )  # fmt: skip
    return known
