"""What of a working directory is sent and what is not, as a value."""

from __future__ import annotations

import hashlib
import heapq
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from jobgen.errors import Diagnostic, JobgenError

_READ = 1 << 20
_LOG = re.compile(r"\.(?:log|out|err|txt|csv|jsonl)$|(?:^|[/.])events\.out\.tfevents\.")
"""Files that programs append to: what was there before stays as it is. A program that grew was
written anew, and half of it would be another one."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One file, directory or symbolic link: its POSIX path below the root, size and mode."""

    path: str
    kind: Literal["file", "dir", "link"] = "file"
    size: int = 0
    mode: int = 0o644
    target: str = ""
    """Where a link points, relative to the link."""
    stamp: tuple[int, int, int] = (0, 0, 0)
    """Device, inode and time of change: what must still be true when the file is read."""


@dataclass(frozen=True, slots=True)
class Ignored:
    """What lies in one top-level entry and is not sent. ``at_least``: not counted to the end."""

    path: str
    files: int
    size: int
    at_least: bool = False


@dataclass(frozen=True, slots=True)
class Manifest:
    """All that is sent, in the order it is sent; a directory stands before what is in it."""

    root: Path
    entries: tuple[Entry, ...]
    ignored: tuple[Ignored, ...] = ()
    """Largest first."""
    withheld: tuple[str, ...] = ()
    """Files that look like secrets, and that no rule names with a ``!``."""
    named: frozenset[str] = frozenset()
    """Files that a rule names with a ``!``: they are sent whatever they hold."""
    rules_from: str = ""
    """The name of the ignore file that was used; empty where there is none."""

    @property
    def files(self) -> tuple[Entry, ...]:
        """The regular files."""
        return tuple(e for e in self.entries if e.kind == "file")

    @property
    def total(self) -> int:
        """Bytes in all files."""
        return sum(e.size for e in self.entries)

    def list_largest(self, count: int = 5) -> tuple[Entry, ...]:
        """The biggest files, biggest first."""
        return tuple(heapq.nsmallest(count, self.files, key=lambda e: (-e.size, e.path)))

    def compute_digest(self) -> str:
        """The sha256 over path, kind, mode and content of every entry, as hex. Reads every file."""
        hashes = {e.path: _hash(self, e) for e in self.files}
        return digest_content(self, hashes)


def digest_content(manifest: Manifest, hashes: dict[str, str]) -> str:
    """The digest of a manifest whose files have these sha256 sums. No time, owner or inode."""
    total = hashlib.sha256()
    for entry in manifest.entries:
        what = hashes[entry.path] if entry.kind == "file" else entry.target
        line = f"{entry.kind}\0{entry.path}\0{entry.mode:o}\0{what}\0"
        total.update(line.encode("utf-8", "surrogateescape"))
    return total.hexdigest()


def _hash(manifest: Manifest, entry: Entry) -> str:
    total = hashlib.sha256()
    for chunk in read(manifest.root, entry):
        total.update(chunk)
    return total.hexdigest()


def read(root: Path, entry: Entry, grown: set[str] | None = None) -> Iterator[bytes]:
    """The bytes of a file: exactly ``entry.size``, and only of the file that was scanned.

    A log that grew is read as far as it went when it was scanned; its path is added to
    ``grown``. Raises JobgenError where it is another file by now, became shorter or was changed
    in place.
    """
    grown = set() if grown is None else grown
    try:
        # since the scan the file may have become a link to somewhere else, or a pipe
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(f"{root}/{entry.path}", flags)
    except OSError as error:
        raise _changed(entry, f"it cannot be read: {error.strerror}") from error
    try:
        _check_unchanged(entry, descriptor, grown)
        left = entry.size
        while left:
            chunk = os.read(descriptor, min(left, _READ))
            if not chunk:
                raise _changed(entry, "it became shorter")
            left -= len(chunk)
            yield chunk
        _check_unchanged(entry, descriptor, grown)
    finally:
        os.close(descriptor)


def get_stamp(status: os.stat_result) -> tuple[int, int, int]:
    """What identifies one state of one file."""
    return status.st_dev, status.st_ino, status.st_mtime_ns


def _check_unchanged(entry: Entry, descriptor: int, grown: set[str]) -> None:
    status = os.fstat(descriptor)
    same_file = get_stamp(status)[:2] == entry.stamp[:2]
    if same_file and status.st_size > entry.size and _LOG.search(entry.path):
        grown.add(entry.path)
    elif get_stamp(status) != entry.stamp or status.st_size != entry.size:
        raise _changed(entry, "it was written to")


def _changed(entry: Entry, what: str) -> JobgenError:
    problem = Diagnostic(
        "J196",
        f"{entry.path} changed during the upload: {what}",
        hint=(
            "nothing was submitted; run the command again when the file no longer changes, or "
            "add it to the ignore file"
        ),
    )
    return JobgenError(problem)
