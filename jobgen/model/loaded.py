"""A model read from a file, and where in the file each of its values stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

from jobgen.errors import Place, Problem

M = TypeVar("M")

Path = tuple[str | int, ...]
"""Keys and indices from the top of the file: ``("env", "HF_HOME")``, ``("setup", 0)``."""


class Loaded(NamedTuple, Generic[M]):
    """The value, the label of its file as shown to people, and the place of every node."""

    value: M
    label: str
    places: Mapping[Path, Place]
    digest: str
    """sha256 of the file's text, as hex."""
    warnings: tuple[Problem, ...] = ()
    overrides: Mapping[Path, str] = {}
    """Paths that came from somewhere else: ``--set``, the profile that ``extends`` names."""

    def at(self, *path: str | int) -> Place:
        """The place of the key at this path, or of the nearest thing that holds it."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, Place(self.label))

    def why(self, *path: str | int) -> str:
        """The label for ``Decision.place``: ``job.yaml:12``, or the override that set it."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.overrides:
                return self.overrides[path[:length]]
        place = self.at(*path)
        return f"{place.file}:{place.line}" if place.line else place.file
