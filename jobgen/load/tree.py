"""The data of a file on its way to a form: changed in place, every value still has its place."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

from jobgen.errors import Diagnostic, Place, Severity
from jobgen.model.loaded import Assignment, PlacedProgram, StepPrograms
from jobgen.model.units import clip
from jobgen.shell.programs import read_started
from jobgen.shell.simple_commands import Script, read_script
from jobgen.shell.started_program import StartedProgram
from jobgen.source import Source

Path = tuple[str | int, ...]

LONGEST = 131_000
"""The most characters of one value; Linux takes no more in one variable of the environment."""

MOST = 100
"""Problems of one code that are kept."""


class Tree:
    """Data, places and problems of one file while it is being loaded; the data is a copy."""

    def __init__(self, source: Source) -> None:
        self.label = source.label
        self.data: dict[str, Any] = _copy(source.data)
        self.places = dict(source.places)
        self.values = dict(source.values)
        self.digest = source.digest
        self.above: dict[str, str] = {}
        """Labels of the profiles that complete it → digest of their text."""
        self.problems = list(source.problems)
        """What makes the file invalid."""
        self.notes: list[Diagnostic] = []
        """What rules found in it: warnings, and errors that only ``lint`` counts."""
        self.spoiled = set(source.spoiled)
        """Paths about which enough has been said."""
        self.overrides: dict[Path, Place] = {}
        self.variables: list[Assignment] = []
        """What it sets of the variables that can be judged."""
        self.programs: list[PlacedProgram] = []
        self.scripts: list[PlacedProgram] = []
        self.by_step: list[StepPrograms] = []
        """What ``run:`` starts."""
        self.said = Counter[str]()
        """How many problems of each code were found."""
        self.shells: dict[Path, ShellText] = {}

    @property
    def called(self) -> str:
        """The name by which ``-c`` finds this profile; empty for any other file."""
        folder, _, file = self.label.rpartition("/")
        return file.rpartition(".")[0] if folder.rpartition("/")[2] == "clusters" else ""

    def get(self, *path: str | int) -> Any:
        """The value at this path; None where there is none."""
        value: Any = self.data
        for step in path:
            if isinstance(value, Mapping):
                value = value.get(str(step))
            elif isinstance(value, list) and isinstance(step, int) and step < len(value):
                value = value[step]
            else:
                return None
        return value

    def get_table(self, *path: str | int) -> Mapping[str, Any]:
        """The mapping at this path; empty where there is none."""
        value = self.get(*path)
        return value if isinstance(value, Mapping) else {}

    def list_steps(self) -> list[Path]:
        """The paths of the steps, or of the groups, that a job has."""
        steps, groups = self.get("steps"), self.get_table("groups")
        count = len(steps) if isinstance(steps, list) else 0
        paths: list[Path] = [("steps", index) for index in range(min(count, MOST))]
        return paths or [("groups", name) for name in list(groups)[:MOST]]

    def list_groups(self) -> list[Path]:
        """The paths of the groups that a job has."""
        return [path for path in self.list_steps() if path[0] == "groups"]

    def get_text(self, *path: str | int) -> str:
        """The scalar at this path as it was written; empty where there is none."""
        value = self.get(*path)
        return format_scalar(value) if not isinstance(value, (Mapping, list)) else ""

    def list_scalars(self, *path: str | int) -> Iterator[tuple[Path, Any]]:
        """Every scalar at or below this path."""
        yield from _scalars(self.get(*path) if path else self.data, path)

    def find_place(self, path: Path, *, of_key: bool = False) -> Place | None:
        """The place of the value (or key) at this path, or of the nearest thing that holds it."""
        for length in range(len(path), 0, -1):
            here = path[:length]
            override = self.overrides.get(here)
            if override is not None and override.kind == "option":
                return override
            exact = length == len(path)
            table = self.places if of_key or not exact else self.values
            if here in table:
                place = table[here]
                return place if exact else Place(place.file, place.line, place.col, place.end_col)
        return Place(self.label)

    def say(
        self, code: str, message: str, path: Path, hint: str = "", *, place: Place | None = None
    ) -> None:
        """Add a problem that makes the file invalid, unless enough was said about this path."""
        if not self._about(path) and not self.has_enough(code):
            where = place or self.find_place(path)
            self._add(self.problems, Diagnostic(code, message, where, hint))

    def contradict(self, message: str, paths: Sequence[Path], hint: str) -> None:
        """Say that the last of these keys does not go with the ones before."""
        *others, path = paths
        if not any(self._about(p) for p in paths) and not self.has_enough("J138"):
            also = tuple(p for p in (self.find_place(o, of_key=True) for o in others) if p)
            place = self.find_place(path, of_key=True)
            self._add(self.problems, Diagnostic("J138", message, place, hint, also=also))

    def note(
        self,
        code: str,
        message: str,
        path: Path,
        hint: str = "",
        severity: Severity = "warning",
        *,
        place: Place | None = None,
    ) -> None:
        """Add what a rule found in a file that is valid."""
        if not self._about(path) and not self.has_enough(code):
            where = place or self.find_place(path)
            self._add(self.notes, Diagnostic(code, message, where, hint, severity))

    def _add(self, problems: list[Diagnostic], problem: Diagnostic) -> None:
        """Add a problem; what it quotes from the file cannot move a cursor."""
        self.said[problem.code] += 1
        message, hint = clip(problem.message, 400), clip(problem.hint, 400)
        problems.append(problem._replace(message=message, hint=hint))

    def has_enough(self, code: str) -> bool:
        """Whether so many problems of this code were found that more would help nobody.

        To be asked before a costly hint is made: a hostile file can hold thousands.
        """
        return self.said[code] >= MOST

    def is_refused(self, path: Path) -> bool:
        """Whether this key, or what holds it, was refused, so that its value is not known."""
        return self._about(path)

    def _about(self, path: Path) -> bool:
        return any(path[:n] in self.spoiled for n in range(1, len(path) + 1))

    def locate_part(self, path: Path, start: int, length: int) -> Place | None:
        """The place of a part of the text at this path."""
        whole, value = self.find_place(path), self.get_text(*path)
        if whole is None or not whole.line:
            return whole
        before = value[:start]
        if whole.end_col:
            quotes = (whole.end_col - whole.col - len(value)) // 2
            col = whole.col + quotes + start
            return Place(whole.file, whole.line, col, col + length) if quotes in {0, 1} else whole
        return Place(whole.file, whole.line + 1 + before.count("\n"))

    def read_shell(self, *path: str | int) -> ShellText:
        """The shell text at this path, which is read once, when its variables are put in."""
        return self.shells.setdefault(path, ShellText(self, path))


class ShellText:
    """Lines of shell in a file, read: one text, or a list of lines."""

    def __init__(self, tree: Tree, top: Path) -> None:
        self.tree = tree
        self.lines = [(path, format_scalar(value)) for path, value in tree.list_scalars(*top)]
        self.text = "\n".join(line for _, line in self.lines)
        self.starts = [0, *accumulate(len(line) + 1 for _, line in self.lines)]

    @cached_property
    def script(self) -> Script:
        """The commands as they are written."""
        return read_script(self.text)

    @cached_property
    def started(self) -> Sequence[StartedProgram]:
        """All that the commands start."""
        return tuple(read_started(self.text))

    def locate(self, start: int, end: int) -> tuple[Path, Place | None]:
        """The path of the line that holds a part of the text, and the place of that part."""
        at = bisect_right(self.starts, start, hi=len(self.lines)) - 1
        path = self.lines[at][0]
        return path, self.tree.locate_part(path, start - self.starts[at], end - start)


def format_scalar(value: object) -> str:
    """A scalar as it was written."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return str(getattr(value, "text", value))


def join_path(path: Path) -> str:
    """``launcher.args[0]``: a path as people write it."""
    text = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path)
    return "".join(c if c.isprintable() else "?" for c in text.lstrip("."))[:120]


def change(tree: Tree, path: Path, value: Any) -> None:
    """Put another value at this path, which exists."""
    parent: Any = tree.get(*path[:-1])
    parent[path[-1]] = value


def suggest_space(key: str) -> str:
    """A hint for a key that YAML read with its value, such as ``rank:16``; empty for others."""
    name, colon, value = key.partition(":")
    spaced = colon and name.isidentifier() and value and " " not in value
    return f"write '{name}: {value}', with a space after the colon" if spaced else ""


def refuse_useless(tree: Tree, may_be_empty: str) -> None:
    """Say of every value that is empty or endless, and take it out of the data."""
    for path, value in list(tree.list_scalars()):
        place = tree.find_place(path, of_key=True)
        if value is None and not re.match(may_be_empty, join_path(path)):
            flag = "slurm" in path[:-1]
            hint = "set true for a flag, or remove it" if flag else "set a value, or remove it"
            hint = suggest_space(str(path[-1])) or hint
            tree.say("J118", f"{join_path(path)} is empty (null)", path, hint, place=place)
        elif isinstance(value, str) and len(value) > LONGEST:
            length = f"{len(value)} characters, but the limit is {LONGEST}"
            message = f"{join_path(path)}: {length}"
            tree.say("J122", message, path, "put it into a file in the workdir", place=place)
        else:
            continue
        tree.spoiled.add(path)
        parent: Any = tree.get(*path[:-1])
        if isinstance(parent, dict):
            del parent[path[-1]]
        else:
            parent[path[-1]] = ""


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _copy(v) for k, v in value.items()}
    return [_copy(v) for v in value] if isinstance(value, list) else value


def _scalars(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _scalars(item, (*path, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _scalars(item, (*path, index))
    else:
        yield path, value
