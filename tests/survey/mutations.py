"""Real texts, broken in every way that a wire, a paste or an attacker breaks them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tests.survey.facts import PARSERS, files

HUNDRED = 100
ODD = (
    *"\0\a\b\t\v\f\r\x1b\x7f\x85\xa0\u2028\u202e\u200b\ufeff\ud800²٣Ⅷé字😀",
    *"'\"`$\\|;&<>(){}[]:,=-+.*?^#%@/_ ~!",
    *"0123456789XNVSYPIODE",
)
NUMBERS = (
    "0",
    "-1",
    "9" * 19,
    "9" * 400,
    "1e999",
    "nan",
    "0x" + "f" * 40,
    "٣٣",
    "18446744073709551616",
)
WORDS = (
    "N/A",
    "[N/A]",
    "ERR!",
    "[Unknown Error]",
    "X",
    "NV999",
    "GPU0",
    "NIC0",
    "CA 'x'",
    "port: 1",
)


def _at(rng: random.Random, text: str) -> int:
    return int(rng.random() * (len(text) + 1))


def _flip(rng: random.Random, text: str) -> str:
    at = _at(rng, text)
    return text[:at] + rng.choice(ODD) + text[at + 1 :]


def _insert(rng: random.Random, text: str) -> str:
    at = _at(rng, text)
    return text[:at] + rng.choice(rng.choice((ODD, NUMBERS, WORDS))) + text[at:]


def _cut(rng: random.Random, text: str) -> str:
    at = _at(rng, text)
    return text[:at] + text[at + rng.choice((1, 2, 8, 80, 800)) :]


def _truncate(rng: random.Random, text: str) -> str:
    return text[: _at(rng, text)]


def _lines(change: Callable[[random.Random, list[str], int], None]) -> Callable[..., str]:
    def mutate(rng: random.Random, text: str) -> str:
        rows = text.split("\n")
        change(rng, rows, int(rng.random() * len(rows)))
        return "\n".join(rows)

    return mutate


def _drop(_: random.Random, rows: list[str], at: int) -> None:
    del rows[at]


def _double(_: random.Random, rows: list[str], at: int) -> None:
    rows.insert(at, rows[at])


def _swap(rng: random.Random, rows: list[str], at: int) -> None:
    other = int(rng.random() * len(rows))
    rows[at], rows[other] = rows[other], rows[at]


def _join(_: random.Random, rows: list[str], at: int) -> None:
    rows[at : at + 2] = ["".join(rows[at : at + 2])]


def _repeat(rng: random.Random, rows: list[str], at: int) -> None:
    rows[at:at] = [rows[at]] * rng.choice((3, 30, 300))


def _stretch(rng: random.Random, rows: list[str], at: int) -> None:
    rows[at] = rows[at] * rng.choice((2, 20, 200))


def _number(rng: random.Random, text: str) -> str:
    """A number of the text becomes another."""
    start = _at(rng, text)
    first = next((i for i in range(start, len(text)) if text[i].isdecimal()), len(text))
    last = next((i for i in range(first, len(text)) if not text[i].isdecimal()), len(text))
    return text[:first] + rng.choice(NUMBERS) + text[last:]


def _spaces(rng: random.Random, text: str) -> str:
    old, new = rng.choice((("\t", " "), (" ", "\t"), ("\n", "\r\n"), ("\n", "\r"), ("  ", " ")))
    return text.replace(old, new)


def _case(rng: random.Random, text: str) -> str:
    return rng.choice((str.upper, str.lower, str.swapcase))(text)


OFTEN = (_flip, _insert, _cut, _number, *map(_lines, (_drop, _double, _swap, _join)))
SELDOM = (_truncate, _spaces, _case, *map(_lines, (_repeat, _stretch)))


def mutant(rng: random.Random, texts: Sequence[str]) -> str:
    """One of the texts with one to six faults; one in twenty is spliced with another."""
    text = rng.choice(texts)
    if rng.random() < 0.05:
        other = rng.choice(texts)
        text = text[: _at(rng, text)] + other[_at(rng, other) :]
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        text = rng.choice(SELDOM if rng.random() < 0.08 else OFTEN)(rng, text)
    return text


class Tally(NamedTuple):
    """What a run came to: mutants that were parsed, and seconds of the slowest."""

    parsed: int
    slowest: float


def run(name: str, count: int, seed: int = 0) -> Tally:
    """Parse so many mutants of a parser's fact files. Raises what the parser raises, with the text.

    Every hundred have a seed of their own, so a failure can be tried again alone.
    """
    parse, pattern = PARSERS[name]
    texts = [path.read_text() for path in files(pattern)]
    slowest = 0.0
    for chunk, size in _chunks(count):
        rng = random.Random(f"{name} {seed} {chunk}")  # noqa: S311 - not for secrets
        for _ in range(size):
            text = mutant(rng, texts)
            started = time.process_time()
            try:
                parse(text)
            except BaseException as error:
                error.add_note(f"{name}, chunk {chunk}: {text[:4000]!r}")
                raise
            slowest = max(slowest, time.process_time() - started)
    return Tally(count, slowest)


def _chunks(count: int) -> Iterator[tuple[int, int]]:
    for start in range(0, count, HUNDRED):
        yield start // HUNDRED, min(HUNDRED, count - start)
