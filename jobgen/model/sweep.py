"""A sweep: one set of values for each element of a job array.

The values of a random sweep follow from its seed alone: SHA-256 of seed, element and name, so that
they are the same with every release of Python.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jobgen.model.array import fold_indexes, read_indexes
from jobgen.model.fields import (
    ENV_NAME,
    SCALAR,
    check_integer,
    check_number,
    check_text,
    describe_value,
)
from jobgen.model.form import Check, Form, check_form, check_list, check_table, key, refuse
from jobgen.model.units import UnitError
from jobgen.named_tuple import NamedTuple
from jobgen.wording import join_words

MOST = 100_000
"""Elements of a sweep."""
_VALUE = re.compile(r"[A-Za-z0-9_.,:/=@%+^~-]{1,256}", re.ASCII)
TABLE = "sweep.tsv"
"""The file of the bundle that lists the elements; job.sbatch reads it."""
KINDS = ("grid", "zip", "list", "random")
"""The ways to list values; a sweep has one of them."""
_RANGES = ("uniform", "log", "int")


def _check_value(value: object) -> str:
    """One word, since the program gets it on its command line."""
    word = check_text(value)
    if not _VALUE.fullmatch(word):
        message = f"{describe_value(value)} cannot be a value of a sweep"
        raise refuse(
            "J148",
            message,
            "use one word of letters, digits and _.,:/=@%+^~-, which the program may map",
        )
    return word


def _check_indexes(value: object) -> str:
    try:
        return fold_indexes(read_indexes(check_text(value)))
    except UnitError as error:
        raise refuse("J148", error.message, error.hint) from error


_VALUES = check_list(Check(_check_value, SCALAR))


class Draw(NamedTuple):
    """What the values of one variable of a random sweep are drawn from."""

    kind: str
    """``uniform``, ``log``, ``int``, or ``choice``."""
    low: float = 0.0
    high: float = 0.0
    choices: tuple[str, ...] = ()

    def pick(self, share: float) -> str:
        """The value at a share, at least 0 and below 1, of what there is.

        >>> Draw("int", 2, 4).pick(0.99), Draw("log", 1e-5, 1e-3).pick(0.5)
        ('4', '0.0001')
        """
        if self.kind == "choice":
            return self.choices[int(share * len(self.choices))]
        if self.kind == "int":
            return str(int(self.low) + int(share * (self.high - self.low + 1)))
        if self.kind == "log":
            low, high = math.log(self.low), math.log(self.high)
            return f"{math.exp(low + share * (high - low)):.6g}"
        return f"{self.low + share * (self.high - self.low):.6g}"


def _check_draw(value: object) -> Draw:
    """A list of values to choose from, or a range: ``{log: [1e-5, 1e-3]}``."""
    if isinstance(value, Draw):
        return value
    if not isinstance(value, Mapping):
        return Draw("choice", choices=_VALUES(value))
    kind = next(iter(value), "")
    ends = value.get(kind)
    if len(value) != 1 or kind not in _RANGES or not isinstance(ends, (list, tuple)):
        message = f"expected values or a range, got {describe_value(value)}"
        raise refuse("J148", message, "write [1, 2, 4], {uniform: [0, 0.3]}, {log: …} or {int: …}")
    low, high = (check_number(end) for end in ends) if len(ends) == 2 else (1.0, 0.0)
    if not low < high or (kind == "log" and low <= 0) or (kind == "int" and (low % 1 or high % 1)):
        message = f"{kind} needs two ends, the lower one first"
        raise refuse("J148", message, f"such as {kind}: [1, 8]")
    return Draw(kind, low, high)


class RandomSweep(Form):
    """Values drawn at random."""

    samples: int = key(check_integer(1, MOST), doc="Number of elements.", example="20")
    values: Mapping[str, Draw] = key(
        check_table(ENV_NAME, Check(_check_draw, {})),
        doc=(
            "What to draw from, by variable: a list of values, or uniform, log or int with "
            "the two ends of a range."
        ),
        example="{LR: {log: [1e-5, 1e-3]}, LAYERS: [12, 24]}",
    )
    seed: int = key(check_integer(0, 1 << 62), default=0, doc="The same seed, the same values.")


class PackedElements(Form):
    """What each element of a packed sweep gets of a node."""

    gpus: int = key(
        check_integer(1, 64),
        doc="GPUs of each element; ranks on nodes without GPUs.",
        example="1",
    )


class Sweep(Form):
    """The values that differ between the elements of a job array."""

    grid: Mapping[str, tuple[str, ...]] = key(
        check_table(ENV_NAME, _VALUES),
        default={},
        doc="All combinations of these values: {LR: [1e-5, 3e-5], SEED: [0, 1]} is 4 elements.",
    )
    zip: Mapping[str, tuple[str, ...]] = key(
        check_table(ENV_NAME, _VALUES),
        default={},
        doc="The first values together, then the second ones, …: lists of one length.",
    )
    list: tuple[Mapping[str, str], ...] = key(
        check_list(check_table(ENV_NAME, Check(_check_value, SCALAR)), alone=False),
        default=(),
        doc="One mapping for each element: [{LR: 1e-5, WARMUP: 100}, {LR: 3e-5, WARMUP: 500}].",
    )
    random: RandomSweep | None = key(
        check_form(RandomSweep), default=None, doc="Values drawn at random, from a seed."
    )
    max_parallel: int | None = key(
        check_integer(1, MOST),
        default=None,
        doc="Elements that run at the same time; default: all.",
    )

    pack: PackedElements | None = key(
        check_form(PackedElements),
        default=None,
        doc=(
            "Run all elements in one job instead of an array: nodes and gpus_per_node are those of "
            "the job, and workers with some of its GPUs take one element after the other."
        ),
        example="{gpus: 1}",
    )
    only: str | None = key(
        Check(_check_indexes, {"type": ["string", "integer"]}),
        default=None,
        doc="Indexes of the elements to run, such as 3,7-9; default: all.",
    )

    def __init__(self, /, **values: Any) -> None:
        super().__init__(**values)
        kinds = [kind for kind in KINDS if getattr(self, kind)]
        if len(kinds) != 1:
            message = f"has {join_words(kinds, 'and') or 'no values'}"
            raise refuse("J148", message, f"set one of {join_words(KINDS, 'or')}")
        if self.pack and self.max_parallel:
            message = "max_parallel and pack exclude each other"
            raise refuse("J148", message, "a packed sweep runs as many elements as it has workers")
        lengths = {len(column) for column in self.zip.values()}
        if len(lengths) > 1:
            raise refuse("J148", "the lists of zip differ in length", "give each as many values")
        if any(list_names([row]) != list_names(self.list) for row in self.list):
            message = "the elements of list do not name the same variables in the same order"
            raise refuse("J148", message, "give each element a value for each variable")
        count = math.prod(len(column) for column in self.grid.values())
        if count > MOST:
            raise refuse("J148", f"{count:,} elements are too many", f"at most {MOST:,}")
        last = len(self.list_elements()) - 1
        if self.only and read_indexes(self.only)[-1] > last:
            raise refuse("J148", f"only: {self.only}, but the last element is {last}", "")

    def list_elements(self) -> tuple[Mapping[str, str], ...]:
        """The values of each element, in the order of the array's indexes."""
        if self.random is not None:
            return _draw_all(self.random)
        if self.grid:
            return _combine(self.grid, itertools.product(*self.grid.values()))
        if self.zip:
            return _combine(self.zip, zip(*self.zip.values(), strict=False))
        return tuple(self.list)

    def format_indexes(self) -> str:
        """The indexes of its array, as ``sbatch --array`` takes them."""
        limit = f"%{self.max_parallel}" if self.max_parallel else ""
        return f"{self.only or fold_indexes(range(len(self.list_elements())))}{limit}"


def _combine(names: Iterable[str], rows: Iterable[Sequence[str]]) -> tuple[Mapping[str, str], ...]:
    columns = tuple(names)
    return tuple(dict(zip(columns, row, strict=True)) for row in rows)


def _draw_all(random: RandomSweep) -> tuple[Mapping[str, str], ...]:
    return tuple(
        {name: draw.pick(_share(random.seed, i, name)) for name, draw in random.values.items()}
        for i in range(random.samples)
    )


def _share(*words: object) -> float:
    """A number of at least 0 and below 1 that these words decide."""
    digest = hashlib.sha256(" ".join(map(str, words)).encode()).digest()
    return int.from_bytes(digest[:6], "big") / (1 << 48)


def format_table(elements: Sequence[Mapping[str, str]]) -> bytes:
    """The elements as ``TABLE`` has them: a line with the names, then one for each index."""
    rows = [list_names(elements), *(tuple(element.values()) for element in elements)]
    return "".join("\t".join(row) + "\n" for row in rows).encode()


def read_table(table: bytes) -> tuple[Mapping[str, str], ...]:
    """The elements that ``format_table`` wrote; none if there is no table.

    >>> read_table(format_table([{"LR": "1e-5", "SEED": "0"}]))
    ({'LR': '1e-5', 'SEED': '0'},)
    """
    names, *rows = [line.split("\t") for line in table.decode().split("\n") if line] or [[]]
    return tuple(dict(zip(names, row, strict=False)) for row in rows)


def list_names(elements: Sequence[Mapping[str, str]]) -> tuple[str, ...]:
    """The variables of a sweep, in their order."""
    return tuple(elements[0]) if elements else ()
