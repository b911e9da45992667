"""A model read from a file, and where in the file each of its values stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

from jobgen.errors import Diagnostic, Place
from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jobgen.shell.started_program import StartedProgram

M = TypeVar("M")

Path = tuple[str | int, ...]
"""Keys and indices from the top of the file: ``("env", "HF_HOME")``, ``("setup", 0)``."""


class Assignment(NamedTuple):
    """A variable of the environment that a file sets, of those that jobgen can judge."""

    name: str
    value: str | None
    """None where only the run knows it."""
    place: Place | None
    setup: bool = False
    """Whether a line of shell exports it."""


class PlacedProgram(NamedTuple):
    """A Python program, a launcher or a shell script that ``run:`` starts."""

    program: StartedProgram
    place: Place | None


class StepPrograms(NamedTuple):
    """What one step of a job starts, as :class:`Loaded` has it of all."""

    programs: tuple[PlacedProgram, ...]
    scripts: tuple[PlacedProgram, ...]


class Loaded(NamedTuple, Generic[M]):
    """The value, the label of its file as shown to people, and the place of every node."""

    value: M
    label: str
    places: Mapping[Path, Place]
    digest: str
    """sha256 of the file's text, as hex."""
    warnings: tuple[Diagnostic, ...] = ()
    overrides: Mapping[Path, Place] = {}
    """Paths that came from somewhere else: ``--set``, the profile that ``extends`` names."""
    variables: tuple[Assignment, ...] = ()
    """What it sets of NCCL's variables and of those around them."""
    programs: tuple[PlacedProgram, ...] = ()
    """The Python programs and launchers that ``run:`` starts, in order."""
    scripts: tuple[PlacedProgram, ...] = ()
    """Those of Python and of the shell that are files."""
    by_step: tuple[StepPrograms, ...] = ()
    """Of a job with steps: what each of them starts."""
    above: Mapping[str, str] = {}
    """Labels of the profiles that it extends → sha256 of their text."""

    def find_place(self, *path: str | int) -> Place:
        """The place of the key at this path, or of the nearest thing that holds it.

        Of a value that ``--set`` gave, that option.
        """
        option = self._find_option(path)
        if option is not None:
            return option
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, Place(self.label))

    def cite(self, *path: str | int) -> Place:
        """The place for a ``Decision``: ``job.yaml:12``, or the override that set it."""
        place = self.find_place(*path)
        return place if place.kind == "option" else Place(place.file, place.line)

    def _find_option(self, path: Path) -> Place | None:
        for length in range(len(path), 0, -1):
            override = self.overrides.get(path[:length])
            # of a profile that is extended, the very key has its place
            if override is not None and override.kind == "option":
                return override
        return None
