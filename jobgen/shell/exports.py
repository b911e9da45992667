"""Shell text → the variables that it hands to programs, each with its value and its place.

Nothing is run: a value into which the shell would put something is not known, except that of
``${X:-default}``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from jobgen.named_tuple import NamedTuple
from jobgen.shell.conditions import ASSIGNED
from jobgen.shell.lexer import ShellWord
from jobgen.shell.script_variables import DECLARING, switches_option

if TYPE_CHECKING:
    from jobgen.shell.started_program import StartedProgram

_DEFAULTED = re.compile(r"\$\{[A-Za-z_]\w*:?[-=]([^${}`\"']*)\}", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_INTO_CONTAINERS = r"(?:SINGULARITY|APPTAINER)ENV_"
"""With such a prefix, a container's ranks find the rest of the name."""
_RUNNERS = frozenset({"srun", "sbatch", "salloc", "mpirun", "mpiexec", "orterun"})
_LISTING = frozenset({"singularity", "apptainer"})
_CONTAINERS = _LISTING | {"docker", "podman", "nerdctl", "enroot"}
_FLAGS = frozenset({"-x", "-env", "-genv"})
"""Options of MPI's starters that hand out a variable."""


class Export(NamedTuple):
    """A variable that a program will find."""

    name: str
    value: str | None
    """None where only the run knows it."""
    start: int
    """Where the name stands in the text."""
    end: int


def list_exports(started: Iterable[StartedProgram]) -> Iterator[Export]:
    """Every variable that a text, read by ``read_started``, exports or hands to a command.

    >>> from jobgen.shell.programs import read_started
    >>> started = read_started("A=1; export A B=$X; C=3 srun --export=D=4 x.py")
    >>> [(export.name, export.value) for export in list_exports(started)]
    [('A', '1'), ('B', None), ('C', '3'), ('D', '4')]
    """
    exports = _Exports()
    for program in started:
        yield from exports.take(program)


class _Exports:
    """What is known on the way: variables that are set but not handed out, and ``set -a``."""

    def __init__(self) -> None:
        self.plain: dict[str, Export] = {}
        self.names: set[str] = set()
        self.all = False

    def take(self, program: StartedProgram) -> Iterator[Export]:
        """What the next command hands out."""
        starter, words = program.starter, program.words
        assigned = _read_each(program.assignments)
        if not words:
            self.plain |= {export.name: export for export in assigned}
            yield from (e for e in assigned if self.all or e.name in self.names)
            return
        if starter is None or starter.name not in _CONTAINERS:
            yield from assigned
        name = words[0].text.rpartition("/")[2]
        switched = switches_option(words, "a", "allexport")
        self.all = self.all if switched is None else switched
        if name in DECLARING:
            declared = list(self._declare(name, words[1:]))
            self.names |= {export.name for export in declared}
            self.names |= {word.text for word in words[1:] if _NAME.fullmatch(word.text)}
            yield from declared
        elif name == "setenv" and len(words) > 1 and _NAME.fullmatch(words[1].text):
            yield _of_pair(words[1], words[2] if len(words) > 2 else words[1]._replace(text=""))
        elif name in _RUNNERS:
            yield from read_runner_options(words[1:])
        elif name in _CONTAINERS:
            yield from _read_container(words, several=name in _LISTING)

    def _declare(self, name: str, words: Sequence[ShellWord]) -> Iterator[Export]:
        """What ``export``, ``declare -x`` and their like hand out."""
        flags = [word.text for word in words if word.text.startswith("-")]
        if name != "export" and not any("x" in flag for flag in flags):
            self.plain |= {export.name: export for export in _read_each(words)}
        elif "-n" not in flags:
            for word in words:
                export = _read(word)
                if export is not None:
                    yield export
                elif word.text in self.plain:
                    yield self.plain.pop(word.text)


def read_runner_options(words: Sequence[ShellWord]) -> Iterator[Export]:
    """``srun --export=ALL,A=1``, ``mpirun -x A=1`` and ``mpiexec -genv A 1``."""
    for at, word in enumerate(words):
        flag = words[at - 1].text if at else ""
        if flag in _FLAGS:
            export = _read(word)
            if export is not None:
                yield export
            elif flag != "-x" and at + 1 < len(words):
                yield _of_pair(word, words[at + 1])
        elif flag == "--export" or word.text.startswith("--export="):
            yield from _read_list(word, r",")


def _read_container(words: Sequence[ShellWord], *, several: bool) -> Iterator[Export]:
    """``docker run -e A=1 --env=B=2`` and ``apptainer exec --env A=1,B=2``."""
    comma = r",(?=[A-Za-z_]\w*=)" if several else r"(?!)"
    for before, word in pairwise(words):
        if before.text in {"-e", "--env"} or word.text.startswith("--env="):
            yield from _read_list(word, comma)


def _read_list(word: ShellWord, comma: str) -> Iterator[Export]:
    """The assignments of a list such as ``--export=ALL,A=1``; ``comma`` is what parts them."""
    for part in re.split(comma, re.sub(r"^--[a-z]+=", "", word.text)):
        if match := ASSIGNED.match(part):
            value = part[match.end() :]
            unknown = word.expands and ("$" in value or "`" in value)
            yield Export(match.group(1), None if unknown else value, word.start, word.end)


def _of_pair(name: ShellWord, value: ShellWord) -> Export:
    return Export(name.text, None if value.expands else value.text, name.start, name.end)


def _read_each(words: Sequence[ShellWord]) -> list[Export]:
    return [export for word in words if (export := _read(word)) is not None]


def _read(word: ShellWord) -> Export | None:
    """``A=1`` or ``"A=1"`` as a word of a command that assigns."""
    match = ASSIGNED.match(word.text)
    if match is None:
        return None
    value: str | None = word.text[match.end() :]
    if match.group(2):
        value = None
    elif word.expands:
        default = _DEFAULTED.fullmatch(word.text[match.end() :])
        value = default.group(1) if default else None
    name = re.sub(_INTO_CONTAINERS, "", match.group(1))
    if word.end - word.start != len(word.raw):  # it stands inside of a word
        return Export(name, value, word.start, word.end)
    start = word.start + word.quoted
    return Export(name, value, start, start + len(match.group(1)))
