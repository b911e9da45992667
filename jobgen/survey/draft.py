"""What was found of a machine, as lines of a profile: each with how it was found."""

from __future__ import annotations

from collections.abc import Iterable

from jobgen.named_tuple import NamedTuple
from jobgen.shell import split_lines

Path = tuple[str, ...]
Scalar = str | int | bool | tuple[str, ...]


class ProfileLine(NamedTuple):
    """A fact: its key in the profile, its value, and where it was read."""

    path: Path
    value: Scalar
    how: str


class Gap(NamedTuple):
    """A fact that was not found, and why; ``maybe`` are the values that it can have.

    A key that a profile has to have is written as ``unknown``, every other one as a comment.
    """

    path: Path
    why: str
    maybe: tuple[str, ...] = ()


class Draft(NamedTuple):
    """A profile as far as it was found, in the order of its keys."""

    entries: tuple[ProfileLine | Gap, ...]
    notes: tuple[str, ...] = ()
    """Choices that were made, and what else there is."""

    @property
    def lines(self) -> tuple[ProfileLine, ...]:
        """The facts."""
        return tuple(one for one in self.entries if isinstance(one, ProfileLine))

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """What was not found."""
        return tuple(one for one in self.entries if isinstance(one, Gap))

    def get(self, *path: str) -> Scalar | None:
        """The value found for a key; None where it was not found."""
        return next((one.value for one in self.lines if one.path == path), None)


class WritableFolder(NamedTuple):
    """A folder on the login host that this account may write to."""

    name: str
    """The variable that names it: HOME, SCRATCH; empty for a usual place that is there."""
    type: str
    """Its file system, as ``stat -f`` says it."""
    free_kib: int
    path: str


class LoginHost(NamedTuple):
    """What the login host says beside Slurm."""

    user: str = ""
    home: str = ""
    host: str = ""
    folders: tuple[WritableFolder, ...] = ()
    modules: tuple[str, ...] = ()


def parse_folders(text: str) -> tuple[WritableFolder, ...]:
    """The lines ``NAME TYPE FREE PATH`` of the survey script, each path once."""
    found: dict[str, WritableFolder] = {}
    for line in split_lines(text):
        words = line.split(" ", 3)
        if len(words) == 4 and words[2].isascii() and words[2].isdigit() and len(words[2]) < 19:
            name = words[0] if words[0] != "-" else ""
            path = words[3].rstrip("/") or "/"
            found.setdefault(path, WritableFolder(name, words[1], int(words[2]), path))
    return tuple(found.values())


def join_names(words: Iterable[str], most: int = 6) -> str:
    """Words with commas between them, and how many were left out."""
    words = list(words)
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more
