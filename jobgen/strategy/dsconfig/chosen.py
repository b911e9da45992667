"""Keys of a DeepSpeed configuration with their values, and the mapping that they make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jobgen.named_tuple import NamedTuple
from jobgen.strategy.spec import TrainDiagnostic

Path = tuple[str, ...]


class ChosenKey(NamedTuple):
    """One key: where it stands, its value, and why jobgen chose it where the job does not say."""

    path: Path
    value: Any
    why: str = ""
    key: Path = ()
    """The key of ``train`` that says it; nothing where none does."""


class UserConfig(NamedTuple):
    """The file as it was read."""

    name: str
    values: Mapping[str, Any]
    lines: Mapping[Path, int]

    def cite(self, path: Path) -> str:
        """Its name, with the line of the key or of the block that it would stand in."""
        while path and path not in self.lines:
            path = path[:-1]
        return f"{self.name}:{self.lines[path]}" if path else self.name


class Written(NamedTuple):
    """A configuration as it goes into the file."""

    values: Mapping[str, Any]
    why: Mapping[str, str] = {}
    faults: tuple[TrainDiagnostic, ...] = ()


def write_keys(asked: Iterable[ChosenKey], faults: tuple[TrainDiagnostic, ...] = ()) -> Written:
    """These keys alone, with the faults that were found."""
    values: dict[str, Any] = {}
    for each in asked:
        put(values, each.path, each.value)
    return Written(values, {".".join(c.path): c.why for c in asked if c.why}, faults)


def put(values: dict[str, Any], path: Path, value: Any) -> None:
    """Set the key at this path; blocks on the way are made, and a block that is none replaced."""
    for name in path[:-1]:
        inner = values.get(name)
        values[name] = values = inner if isinstance(inner, dict) else {}
    values[path[-1]] = value


def get(values: Mapping[str, Any], path: Path) -> Any:
    """The value at this path; None where there is none."""
    found: Any = values
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found
