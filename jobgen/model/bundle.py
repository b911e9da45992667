"""The rendered files of a plan, as bytes."""

from __future__ import annotations

import hashlib

from jobgen.named_tuple import NamedTuple

ENTRY = "job.sbatch"
SECRETS_FILE = "secrets.env"
"""Beside the bundle, in the run directory."""


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
        """The sha256 over the lines that ``sha256sum bundle/FILE …`` prints, as hex.

        A job compares it with the files that it finds: see templates/slurm/_prologue.j2.
        """
        total = hashlib.sha256()
        for file in sorted(self.files, key=lambda file: file.path.encode()):
            content = hashlib.sha256(file.content).hexdigest()
            total.update(f"{content}  bundle/{file.path}\n".encode())
        return total.hexdigest()
