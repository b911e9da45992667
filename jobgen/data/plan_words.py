"""Words of the screens of ``plan`` that are neither keys nor verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from jobgen.data import rows
from jobgen.named_tuple import NamedTuple


class PlanWord(NamedTuple):
    """What a word of the plan means: ``jobgen explain MFU``."""

    title: str
    meaning: str
    keys: tuple[str, ...]
    """Keys of job.yaml that it has to do with."""
    source: str
    """Empty where it is a word of jobgen's own."""


@cache
def plan_words() -> Mapping[str, PlanWord]:
    """Word in small letters → what it means; several may mean one."""
    return {
        word: PlanWord(row["title"], row["meaning"], tuple(row["keys"].split("|")), row["source"])
        for row in rows("plan_words.csv")
        for word in row["words"].split("|")
    }
