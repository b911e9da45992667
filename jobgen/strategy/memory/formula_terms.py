"""What a formula of memory is made of: a sum of products with numbers, words and a source.

The products are kept as factors, so that they can be checked against the bytes.
"""

from __future__ import annotations

from math import prod

from jobgen.named_tuple import NamedTuple
from jobgen.strategy.estimate import OWN_RUNS
from jobgen.strategy.memory.activations import Kept
from jobgen.strategy.memory.gpu_parts import Parts
from jobgen.strategy.memory.memory_states import PipelineStage
from jobgen.strategy.setup import Setup

Factors = tuple[tuple[float, str], ...]
"""Numbers, and what each is."""


class Term(NamedTuple):
    """A product, divided by ranks."""

    factors: Factors
    divisors: Factors = ()

    @property
    def bytes(self) -> float:
        """What it comes to."""
        below = prod(number for number, _ in self.divisors)
        return prod(number for number, _ in self.factors) / below

    def __str__(self) -> str:
        over = "".join(
            f" / {format_number(number)} {what}" for number, what in self.divisors if number != 1
        )
        return (
            " x ".join(f"{format_number(number)} {what}".rstrip() for number, what in self.factors)
            + over
        )


class Why(NamedTuple):
    """A component's formula: the sum of its terms is its bytes."""

    text: str
    terms: tuple[Term, ...]
    source: str
    factor: float = 1.0
    """What measured runs multiply it by."""

    @property
    def bytes(self) -> float:
        """What the terms come to."""
        return sum(term.bytes for term in self.terms) * self.factor

    @property
    def formula(self) -> str:
        """One line: in words, and in numbers."""
        terms = " + ".join(str(term) for term in self.terms if term.bytes)
        if self.factor == 1:
            return f"{self.text}: {terms}"
        return f"{self.text}: ({terms}) x {self.factor:.3g} {OWN_RUNS}"


class FormulaCase(NamedTuple):
    """What the builders read: the setup, and the stage and the moment of the peak."""

    setup: Setup
    stage: PipelineStage
    parts: Parts
    idle: float
    """Bytes that are freed and lie in the pools of other streams."""
    micro: Kept | None
    """None of a model that is measured."""
    size: float
    """Bytes of the component."""


def format_number(value: float) -> str:
    """Whole below a million, else at most four digits: 16384, 8.03e9, 0.065."""
    if value < 1e6 and value == round(value):
        return str(round(value))
    text = f"{value:.4g}"
    return text.replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")
