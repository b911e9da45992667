"""Shell text → the variables that it hands to programs, each with its value and its place.

Nothing is run: a value into which the shell would put something is not known, except that of
``${X:-default}``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from jobgen.fabric.variables.shellwords import Word, commands

_ASSIGNED = re.compile(r"([A-Za-z_]\w*)(\+?)=", re.ASCII)
_DEFAULTED = re.compile(r"\$\{[A-Za-z_]\w*:?-([^${}`\"']*)\}", re.ASCII)
_EXPORTS = frozenset({"export", "declare", "typeset", "local", "readonly"})
_RUNNERS = frozenset({"srun", "sbatch", "salloc", "mpirun", "mpiexec", "orterun"})
_SHELLS = frozenset({"bash", "sh"})
_LONGEST = 1_000_000
_DEEPEST = 3


class Assigned(NamedTuple):
    """A variable that a program will find."""

    name: str
    value: str | None
    """None where only the run knows it."""
    start: int
    """Where the name stands in the text."""
    end: int


def exported(text: str, depth: int = 0) -> Iterator[Assigned]:
    """Every variable that this text exports or puts before a command, in order."""
    plain: dict[str, Assigned] = {}
    out: set[str] = set()
    all_out = False
    for words in commands(text[:_LONGEST]):
        here = _leading(words)
        rest = words[len(here) :]
        if not rest:
            for found in here:
                plain[found.name] = found
                if all_out or found.name in out:
                    yield found
            continue
        name = rest[0].text
        if name == "set" and any(w.text in {"-a", "allexport"} for w in rest[1:]):
            all_out = True
        yield from here
        found_here = list(_of_command(text, rest, plain, depth))
        if name in _EXPORTS:
            out |= {found.name for found in found_here}
            out |= {w.text for w in rest[1:] if re.fullmatch(r"[A-Za-z_]\w*", w.text)}
        yield from found_here


def _of_command(
    text: str, rest: list[Word], plain: dict[str, Assigned], depth: int
) -> Iterator[Assigned]:
    name = rest[0].text.rpartition("/")[2]
    if name in _EXPORTS:
        if name == "export" or any(re.fullmatch(r"-\w*x\w*", w.text) for w in rest[1:]):
            yield from _named(rest[1:], plain)
    elif name == "env":
        yield from _leading([w for w in rest[1:] if not w.text.startswith("-")])
    elif name in _RUNNERS:
        yield from _options(rest[1:])
    if depth < _DEEPEST:
        yield from _nested(text, rest, depth)


def _nested(text: str, rest: list[Word], depth: int) -> Iterator[Assigned]:
    """``bash -c 'export A=1; …'``, wherever it stands in a command."""
    for shell, flag, script in zip(rest, rest[1:], rest[2:], strict=False):
        if shell.text.rpartition("/")[2] in _SHELLS and re.fullmatch(r"-\w*c", flag.text):
            inner = text[script.start + 1 : script.end - 1] if script.quoted else script.text
            shift = script.start + script.quoted
            for found in exported(inner, depth + 1):
                yield found._replace(start=found.start + shift, end=found.end + shift)


def _named(words: list[Word], plain: dict[str, Assigned]) -> Iterator[Assigned]:
    """``export A=1 B`` after ``B=2``."""
    for word in words:
        found = _assigned(word)
        if found is not None:
            yield found
        elif word.text in plain:
            yield plain.pop(word.text)


def _options(words: list[Word]) -> Iterator[Assigned]:
    """``srun --export=ALL,A=1`` and ``mpirun -x A=1``."""
    for before, word in zip([None, *words], words, strict=False):
        if before is not None and before.text == "-x":
            found = _assigned(word)
            if found is not None:
                yield found
        elif word.text.startswith("--export=") and "," in word.text:
            for part in word.text.removeprefix("--export=").split(","):
                match = _ASSIGNED.match(part)
                if match and not word.made:
                    yield Assigned(match.group(1), part[match.end() :], word.start, word.end)


def _leading(words: list[Word]) -> list[Assigned]:
    """The assignments before a command."""
    found = []
    for word in words:
        one = _assigned(word)
        if one is None:
            break
        found.append(one)
    return found


def _assigned(word: Word) -> Assigned | None:
    match = _ASSIGNED.match(word.text)
    if match is None or word.quoted:
        return None
    value: str | None = word.text[match.end() :]
    if match.group(2):
        value = None
    elif word.made:
        default = _DEFAULTED.fullmatch(word.text[match.end() :])
        value = default.group(1) if default else None
    return Assigned(match.group(1), value, word.start, word.start + len(match.group(1)))
