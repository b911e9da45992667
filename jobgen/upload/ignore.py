"""Which paths of a working directory are left out: gitignore rules, ``.git``, and secrets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol

from jobgen.data.secret_rules import name_kind
from jobgen.errors import Diagnostic, Invalid
from jobgen.shell import split_lines

OWN, GIT = ".jobgenignore", ".gitignore"
MAX_SIZE = 500 * 1024**2

_Spec = tuple[tuple[re.Pattern[str], bool | None], ...]
"""Patterns, the last one first, and whether each leaves out or takes back."""

_BELOW = "ps_d"
"""pathspec's name for the slash behind which a path lies below the directory that is matched."""

_STARS = re.compile(r"(?:\*+[^*/]+){7}\*")
"""More stars in one name than a regular expression answers in time."""

NEVER = frozenset({".git"})
"""Names that are left out whatever the rules say."""
CACHES = frozenset({"__pycache__"})
"""Directories that are left out unless a ``!`` rule names them: Python writes them anew, and those
of this machine would change the digest of the upload after every local run."""


PULLED = ".jobgen-pulled"
"""What ``jobgen pull`` leaves in its folder, so that no later run gets the results of this one."""
SCHEMA = "job.schema.json"
"""What ``jobgen init`` writes for editors: at the top it is left out, too."""


class WorkdirRules(Protocol):
    """What job.yaml says under ``workdir``: patterns, another ignore file, the most bytes."""

    @property
    def ignore(self) -> Sequence[str]: ...

    @property
    def ignore_file(self) -> str | None: ...

    @property
    def max_size(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a job that says nothing under ``workdir``; see ``WorkdirRules``."""

    ignore: tuple[str, ...] = ()
    ignore_file: str | None = None
    max_size: int = MAX_SIZE


class Ignorer:
    """The rules of one working directory, read as the walk goes down.

    The deepest ignore file with an opinion decides, then those above it; the patterns of job.yaml
    come before all of them.
    """

    def __init__(self, root: Path, rules: WorkdirRules) -> None:
        self.source = _source(root, rules)
        self._root = root
        self._nested = not rules.ignore_file
        self._specs: dict[str, _Spec] = {}
        self._named: list[str] = []
        self._job = self._compile(rules.ignore)

    def enter(self, directory: str, names: Sequence[str]) -> None:
        """Read the ignore file of this directory (``""`` is the root), where it has one."""
        spec: _Spec = ()
        if self.source and (self.source in names if self._nested else not directory):
            path = self._root / directory / self.source
            spec = self._compile(_lines(path))
        self._specs[directory] = spec

    def ignores(self, path: str, is_directory: bool) -> bool:
        """Whether a rule leaves this path out; its parents have been asked before."""
        said = _says(self._job, path, is_directory)
        directory = path
        while said is None and directory:
            directory = directory.rpartition("/")[0]
            if spec := self._specs.get(directory):
                below = path[len(directory) + 1 :] if directory else path
                said = _says(spec, below, is_directory)
        if said is None:
            return is_directory and path.rpartition("/")[2] in CACHES
        return said

    def withholds(self, path: str, is_directory: bool) -> bool:
        """Whether this looks like a secret by its name and no ``!`` rule names it."""
        return bool(name_kind(path, is_directory)) and not self.is_named(path)

    def is_named(self, path: str) -> bool:
        """Whether a ``!`` rule names this file, so that it is sent whatever it is."""
        name = path.rpartition("/")[2]
        return any(fnmatchcase(name, pattern) for pattern in self._named)

    def _compile(self, lines: Sequence[str]) -> _Spec:
        if not lines:
            return ()
        from pathspec import GitIgnoreSpec

        for line in lines:
            if _STARS.search(line):
                hint = "** matches any number of directories; use few * in a name"
                message = f"too many * in an ignore pattern: {line[:40]!r}"
                raise Invalid(Diagnostic("J190", message, hint=hint))
        # "!*" or "!src/" open a whole tree; only a pattern with letters of its own names a secret
        last = [p[1:].rpartition("/")[2].rstrip() for p in lines if p.startswith("!")]
        self._named += [p for p in last if p.strip("*?")]
        patterns = GitIgnoreSpec.from_lines(lines).patterns
        return tuple((p.regex, p.include) for p in reversed(patterns) if p.regex)


def _says(spec: _Spec, path: str, is_directory: bool) -> bool | None:
    """What the last pattern that matches says: left out, or (``!``) not; None where none does.

    The patterns of pathspec also match all that lies below a directory that they name, which git
    does not mean: there the directory is left out, and nobody looks below.
    """
    for regex, include in spec:
        found = regex.search(path)
        if found and not found.groupdict().get(_BELOW):
            return include
        if is_directory and _names_directory(regex, path):
            return include
    return None


def _names_directory(regex: re.Pattern[str], path: str) -> bool:
    if _BELOW not in regex.groupindex:
        return False
    whole = path + "/"
    # "*/" is only the slash, and so found at the first one
    found = (regex.search(whole), regex.search(whole, len(path)))
    return any(f.end(_BELOW) == len(whole) for f in found if f)


def _source(root: Path, rules: WorkdirRules) -> str:
    if rules.ignore_file:
        if not (root / rules.ignore_file).is_file():
            problem = Diagnostic(
                "J190",
                f"workdir.ignore_file: {rules.ignore_file} does not exist in {root.name}/",
                hint="remove the key to use .jobgenignore, else .gitignore",
            )
            raise Invalid(problem)
        return rules.ignore_file
    if (root / OWN).is_file():
        return OWN
    return GIT


def _lines(path: Path) -> list[str]:
    if not path.is_file():
        return []
    return split_lines(path.read_bytes().decode("utf-8", "surrogateescape"))
