"""The catalogue of environment variables: NCCL, what lies around it, and what only hearsay knows.

Four tables: nccl_env.csv (NCCL, PyTorch and their plug-ins), env_variables.csv (libfabric, UCX,
CUDA, OpenMP, RCCL, launchers …), nccl_folklore.csv (names and values that nothing reads),
own_variables.csv (those of jobgen).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from operator import itemgetter
from typing import Literal

from jobgen.data import lines, rows
from jobgen.named_tuple import NamedTuple

Use = Literal[
    "", "needless", "deprecated", "internal", "experimental", "tuning", "debug", "launcher"
]
_USES: Mapping[str, Use] = {
    "no": "needless",
    "no: no effect": "needless",
    "no: obsolete on current stack": "needless",
    "no: deprecated": "deprecated",
    "no: experimental": "experimental",
    "no: undocumented, internal": "internal",
    "internal": "internal",
    "only as measured tuning or temporary workaround": "tuning",
    "debug-only": "debug",
    "set by launcher": "launcher",
    "set by torchrun": "launcher",
}
"""The column ``safe`` of the tables of variables → what it means for a script."""


class EnvVariable(NamedTuple):
    """An environment variable of NCCL or of what lies around it."""

    name: str
    owner: str
    values: str
    default: str
    since: str
    until: str
    """The last release that reads it, where it is gone; else empty."""
    successor: str
    meaning: str
    category: str
    safe: str
    """Whether it belongs in a script: ``yes``, or why not."""
    type: str = ""
    """bool, int, bytes, enum, list, path, str, spec …"""
    source: str = ""

    @property
    def use(self) -> Use:
        """What to do with it in a script; empty if it may stand there."""
        return _USES.get(self.safe, "")


class Hearsay(NamedTuple):
    """A name, or a value of a name, that is passed on though nothing reads it."""

    entry: str
    """The row of the table, as it stands there."""
    why: str
    instead: str
    """What to write; ``none`` where there is nothing to write."""


class OwnVariable(NamedTuple):
    """A variable that jobgen or its rendered scripts set or read."""

    name: str
    group: Literal["rendezvous", "program", "scripts", "machine"]
    """Whom it concerns: torch.distributed, the program, the rendered scripts, jobgen itself."""
    meaning: str


PATTERNS = (("PET_", "PET_<OPTION>"),)
"""Prefix → the row that speaks for all names with it."""


@cache
def nccl_variables() -> Mapping[str, EnvVariable]:
    """The variables that some release of NCCL, its plug-ins or PyTorch's process group reads."""
    return {fields[0]: EnvVariable._make(_SOME(fields)) for fields in lines("nccl_env.csv")}


_SOME = itemgetter(0, 1, 3, 4, 5, 6, 7, 9, 8, 10, 2, 12)
"""The columns of nccl_env.csv in the order of Variable; all but ``documented``."""


@cache
def nccl_folklore() -> Mapping[str, tuple[str, str]]:
    """Names that are passed on but that nothing reads → why, and what to write instead."""
    return {
        row["wrong_name"]: (row["why"], row["write_instead"]) for row in rows("nccl_folklore.csv")
    }


@cache
def catalogue() -> Mapping[str, EnvVariable]:
    """Every variable that some program reads, by its name, in the order of the tables."""
    known = {name: v for name, v in nccl_variables().items() if v.owner != "folklore"}
    for fields in lines("env_variables.csv"):
        known.setdefault(fields[0], EnvVariable._make(fields))
    return known


@cache
def own_variables() -> Mapping[str, OwnVariable]:
    """The variables of jobgen and its rendered scripts, by name."""
    return {fields[0]: OwnVariable._make(fields) for fields in lines("own_variables.csv")}


@cache
def hearsay() -> Mapping[tuple[str, str], Hearsay]:
    """(name, value) → the row on that variable; the value is empty where any is wrong."""
    found = {}
    for entry, (why, instead) in nccl_folklore().items():
        for word in entry.split(" / "):
            name, _, values = word.partition(" ")[0].partition("=")
            for value in values.split("|"):
                found[name, value.upper()] = Hearsay(entry, why, instead)
    return found


def variable(name: str) -> EnvVariable | None:
    """The row of this name, or the one of its family; None where there is none."""
    found = catalogue().get(name)
    if found is not None:
        return found
    row = next((row for prefix, row in PATTERNS if name.startswith(prefix)), "")
    return catalogue().get(row)


def wrong(name: str, value: str | None = None) -> Hearsay | None:
    """What only hearsay knows under this name, or under this name with this value."""
    table = hearsay()
    found = table.get((name, ""))
    if found is None and value is not None:
        found = table.get((name, value.upper()))
    return found


def release(text: str) -> tuple[int, ...]:
    """A release as numbers, from the start of a text such as ``2.21.5 plugins``; empty is none."""
    found = re.match(r"v?(\d+(?:\.\d+)+)", text.strip())
    numbers = [int(part) for part in found.group(1).split(".")] if found else []
    while len(numbers) > 2 and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


LAST_READ = "2.30.7"
"""The release of NCCL that the table was read from."""
