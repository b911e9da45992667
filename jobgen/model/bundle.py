"""The rendered files of a plan, as bytes."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

ENTRY = "job.sbatch"


class BundleFile(NamedTuple):
    """One file: a relative POSIX path, its bytes, and its mode."""

    path: str
    content: bytes
    mode: int = 0o644


class Bundle:
    """All rendered files, sorted by path. No time, user, host, run id, token or absolute path."""

    __slots__ = ("entry", "files")

    def __init__(self, files: tuple[BundleFile, ...], entry: str = ENTRY) -> None:
        self.files = files
        self.entry = entry

    def __getitem__(self, path: str) -> BundleFile:
        return next(f for f in self.files if f.path == path)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bundle) and (self.files, self.entry) == (other.files, other.entry)

    def __hash__(self) -> int:
        return hash((self.files, self.entry))

    @property
    def digest(self) -> str:
        """The sha256 over (path, mode, length, content) of every file, as hex."""
        total = hashlib.sha256()
        for file in self.files:
            head = f"{file.path}\0{file.mode:o}\0{len(file.content)}\0"
            total.update(head.encode())
            total.update(file.content)
        return total.hexdigest()
