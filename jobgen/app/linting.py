"""Every problem of files, without stopping at the first and without touching a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from jobgen.app.world import World
from jobgen.errors import Invalid, Problem


class LintedFile(NamedTuple):
    """One file: how it is called, what it is, its text for excerpts, what is wrong with it."""

    label: str
    kind: str
    text: str
    problems: tuple[Problem, ...]
    valid: bool
    """Whether it could be used; rules may still find errors in a valid file."""


def lint(world: World, files: Sequence[Path]) -> tuple[LintedFile, ...]:
    """Each file with all its problems, in the order given."""
    return tuple(_lint(world, path) for path in files)


def _lint(world: World, path: Path) -> LintedFile:
    from jobgen.load import check

    label = world.label(path)
    try:
        text = world.read(path)
    except Invalid as error:
        return LintedFile(label, "file", "", error.problems, valid=False)
    checked = check(text, label, parent=_parent(world, path, text))
    return LintedFile(label, checked.kind, text, tuple(checked.problems), valid=checked.valid)


def _parent(world: World, path: Path, text: str) -> tuple[str, str] | None:
    """The profile that this file extends, where it is one and there is such a profile."""
    from jobgen.errors import Missing

    try:
        return world.catalog(beside=path.resolve().parent).parent(path, text)
    except (Missing, Invalid):
        return None
